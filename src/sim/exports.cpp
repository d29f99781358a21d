#include "sim/exports.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guest/bare/elf.hpp"
#include "sim/node.hpp"

namespace headgate::sim {
namespace {

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

}  // namespace

int cuda_version_at_load() {
  if (const auto directory = node_directory()) {
    if (const int version = cuda_version_of_node(*directory); version != 0) return version;
  }
  const char* name = std::getenv("HEADGATE_SIM_PROFILE");
  const Profile* profile = name == nullptr ? nullptr : find_profile(name);
  return (profile == nullptr ? find_profile("h200") : profile)->cuda_version;
}

void stop_exporting(const void* address_in_library, const std::vector<const char*>& names) {
  const char* wanted = std::getenv("HEADGATE_SIM_EXPORTS");
  if (wanted == nullptr || std::string_view(wanted) != "release") return;
  bare::Object library;
  if (!bare::object_at(address_in_library, library)) return;
  std::vector<const ElfW(Sym)*> symbols;
  for (const char* name : names) {
    if (const ElfW(Sym)* symbol = bare::symbol_entry_in(library, name)) symbols.push_back(symbol);
  }
  if (symbols.empty()) return;
  const auto [first, last] = std::ranges::minmax_element(symbols);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(*first) / page * page;
  const std::size_t bytes = reinterpret_cast<std::uintptr_t>(*last + 1) - begin;
  const int before = protection_at(library, *first);
  if (::mprotect(reinterpret_cast<void*>(begin), bytes, before | PROT_WRITE) != 0) return;
  for (const ElfW(Sym) * symbol : symbols) {
    auto& entry = const_cast<ElfW(Sym)&>(*symbol);
    entry.st_value = 0;
    entry.st_shndx = SHN_UNDEF;
  }
  ::mprotect(reinterpret_cast<void*>(begin), bytes, before);
}

}  // namespace headgate::sim
