#include "sim/exports.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>

#include "guest/bare/elf.hpp"
#include "sim/node.hpp"

namespace headgate::sim {
namespace {

// An index of a version that is hidden (bit 15 of an entry in .gnu.version): dlsym skips such a definition, and a
// reference without a version, as programs have that are linked with this library, binds to it. glibc's do_lookup_x.
constexpr ElfW(Versym) kHidden = 0x8002;

const ElfW(Dyn) * dynamic_of(const bare::Object& object) {
  for (std::size_t i = 0; i < object.header_count; ++i) {
    const ElfW(Phdr)& header = object.headers[i];
    if (header.p_type == PT_DYNAMIC) return reinterpret_cast<const ElfW(Dyn)*>(object.base + header.p_vaddr);
  }
  return nullptr;
}

// The value of a tag that is an address; nullptr where the object has none. The vDSO's are offsets.
template <typename T>
const T* table_of(const bare::Object& object, ElfW(Sxword) tag) {
  for (const ElfW(Dyn)* entry = dynamic_of(object); entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != tag) continue;
    const ElfW(Addr) value = entry->d_un.d_ptr;
    return reinterpret_cast<const T*>(value < object.base ? value + object.base : value);
  }
  return nullptr;
}

int protection_at(const bare::Object& object, const void* address) {
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) - object.base;
  for (std::size_t i = 0; i < object.header_count; ++i) {
    const ElfW(Phdr)& header = object.headers[i];
    if (header.p_type != PT_LOAD || offset < header.p_vaddr || offset - header.p_vaddr >= header.p_memsz) continue;
    return ((header.p_flags & PF_R) != 0 ? PROT_READ : 0) | ((header.p_flags & PF_W) != 0 ? PROT_WRITE : 0) |
           ((header.p_flags & PF_X) != 0 ? PROT_EXEC : 0);
  }
  return PROT_READ;
}

// Names of the driver API and of NVML that the loaded objects refer to and do not define.
std::set<std::string_view> names_linked_with() {
  std::set<std::string_view> names;
  bare::each_object([&](const bare::Object& object) {
    const auto* symbols = table_of<ElfW(Sym)>(object, DT_SYMTAB);
    const auto* strings = table_of<char>(object, DT_STRTAB);
    const auto* gnu_hash = table_of<std::uint32_t>(object, DT_GNU_HASH);
    if (symbols == nullptr || strings == nullptr || gnu_hash == nullptr) return false;
    // The hash table holds the symbols from that index on: what is not defined stands before them.
    for (std::uint32_t i = 1; i < gnu_hash[1]; ++i) {
      const std::string_view name = strings + symbols[i].st_name;
      if (symbols[i].st_shndx == SHN_UNDEF && (name.starts_with("cu") || name.starts_with("nvml"))) names.insert(name);
    }
    return false;
  });
  return names;
}

}  // namespace

int cuda_version_at_load() {
  if (const auto directory = node_directory()) {
    if (const int version = cuda_version_of_node(*directory); version != 0) return version;
  }
  const char* name = std::getenv("HEADGATE_SIM_PROFILE");
  const Profile* profile = name == nullptr ? nullptr : find_profile(name);
  return (profile == nullptr ? find_profile("h200") : profile)->cuda_version;
}

void hide_from_dlsym(const void* address_in_library, const std::vector<const char*>& names) {
  bare::Object library;
  if (!bare::object_at(address_in_library, library)) return;
  const auto* symbols = table_of<ElfW(Sym)>(library, DT_SYMTAB);
  const auto* versions = table_of<ElfW(Versym)>(library, DT_VERSYM);
  if (symbols == nullptr || versions == nullptr) return;
  const std::set<std::string_view> linked_with = names_linked_with();
  std::vector<const ElfW(Versym)*> hidden;
  for (const char* name : names) {
    const ElfW(Sym)* symbol = bare::symbol_entry_in(library, name);
    if (symbol != nullptr && !linked_with.contains(name)) hidden.push_back(versions + (symbol - symbols));
  }
  if (hidden.empty()) return;
  const auto [first, last] = std::ranges::minmax_element(hidden);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(*first) / page * page;
  const std::size_t bytes = reinterpret_cast<std::uintptr_t>(*last + 1) - begin;
  const int before = protection_at(library, *first);
  if (::mprotect(reinterpret_cast<void*>(begin), bytes, before | PROT_WRITE) != 0) return;
  for (const ElfW(Versym) * version : hidden) const_cast<ElfW(Versym)&>(*version) = kHidden;
  ::mprotect(reinterpret_cast<void*>(begin), bytes, before);
}

}  // namespace headgate::sim
