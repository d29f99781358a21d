#include "guest/bare/elf.hpp"

#include <elf.h>

// Defined by the dynamic linker; weak because we do not link with it.
#pragma weak _r_debug

namespace headgate::bare {
namespace {

struct Dynamic {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const ElfW(Word) * sysv_hash = nullptr;
  std::size_t soname = 0;
  bool has_soname = false;
};

// glibc rewrites the pointers of most objects' dynamic sections to addresses, but leaves those of read-only ones (the
// vDSO) as offsets.
template <typename T>
const T* located(const Object& object, ElfW(Addr) value) {
  if (value < object.base) value += object.base;
  return reinterpret_cast<const T*>(value);
}

Dynamic dynamic_of(const Object& object) {
  Dynamic found;
  const ElfW(Dyn)* entry = object.dynamic;
  for (std::size_t i = 0; i < object.header_count; ++i) {
    if (object.headers[i].p_type == PT_DYNAMIC) {
      entry = reinterpret_cast<const ElfW(Dyn)*>(object.base + object.headers[i].p_vaddr);
    }
  }
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB: found.symbols = located<ElfW(Sym)>(object, entry->d_un.d_ptr); break;
      case DT_STRTAB: found.strings = located<char>(object, entry->d_un.d_ptr); break;
      case DT_GNU_HASH: found.gnu_hash = located<std::uint32_t>(object, entry->d_un.d_ptr); break;
      case DT_HASH: found.sysv_hash = located<ElfW(Word)>(object, entry->d_un.d_ptr); break;
      case DT_SONAME:
        found.soname = entry->d_un.d_val;
        found.has_soname = true;
        break;
      default: break;
    }
  }
  return found;
}

bool is_definition(const Dynamic& dynamic, const ElfW(Sym) & symbol, const char* name) {
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return false;
  const unsigned type = symbol.st_info & 0xf;
  if (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE) return false;
  return same_text(dynamic.strings + symbol.st_name, name);
}

// The DT_GNU_HASH table: counts, a Bloom filter, buckets, then one hash per symbol. The lowest bit of a hash ends the
// chain.
const ElfW(Sym) * find_gnu(const Dynamic& dynamic, const char* name) {
  std::uint32_t hash = 5381;
  for (const char* c = name; *c != 0; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const std::uint32_t bucket_count = dynamic.gnu_hash[0];
  const std::uint32_t first_symbol = dynamic.gnu_hash[1];
  const std::uint32_t bloom_count = dynamic.gnu_hash[2];
  const auto* bloom = reinterpret_cast<const ElfW(Addr)*>(dynamic.gnu_hash + 4);
  const auto* buckets = reinterpret_cast<const std::uint32_t*>(bloom + bloom_count);
  const std::uint32_t* chain = buckets + bucket_count;
  if (bucket_count == 0) return nullptr;
  std::uint32_t index = buckets[hash % bucket_count];
  if (index < first_symbol) return nullptr;
  for (;; ++index) {
    const std::uint32_t entry = chain[index - first_symbol];
    if ((entry | 1) == (hash | 1) && is_definition(dynamic, dynamic.symbols[index], name))
      return &dynamic.symbols[index];
    if ((entry & 1) != 0) return nullptr;
  }
}

const ElfW(Sym) * find_sysv(const Dynamic& dynamic, const char* name) {
  std::uint32_t hash = 0;
  for (const char* c = name; *c != 0; ++c) {
    hash = (hash << 4) + static_cast<unsigned char>(*c);
    const std::uint32_t high = hash & 0xf000'0000;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  const std::uint32_t bucket_count = dynamic.sysv_hash[0];
  const ElfW(Word)* buckets = dynamic.sysv_hash + 2;
  const ElfW(Word)* chain = buckets + bucket_count;
  if (bucket_count == 0) return nullptr;
  for (std::uint32_t index = buckets[hash % bucket_count]; index != STN_UNDEF; index = chain[index]) {
    if (is_definition(dynamic, dynamic.symbols[index], name)) return &dynamic.symbols[index];
  }
  return nullptr;
}

}  // namespace

const char* soname_of(const Object& object) {
  const Dynamic dynamic = dynamic_of(object);
  return dynamic.has_soname && dynamic.strings != nullptr ? dynamic.strings + dynamic.soname : nullptr;
}

const ElfW(Sym) * symbol_entry_in(const Object& object, const char* name) {
  const Dynamic dynamic = dynamic_of(object);
  if (dynamic.symbols == nullptr || dynamic.strings == nullptr) return nullptr;
  if (dynamic.gnu_hash != nullptr) return find_gnu(dynamic, name);
  return dynamic.sysv_hash == nullptr ? nullptr : find_sysv(dynamic, name);
}

void* symbol_in(const Object& object, const char* name) {
  const ElfW(Sym)* symbol = symbol_entry_in(object, name);
  return symbol == nullptr ? nullptr : reinterpret_cast<void*>(object.base + symbol->st_value);
}

bool covers(const Object& object, const void* address) {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < object.header_count; ++i) {
    const ElfW(Phdr)& header = object.headers[i];
    if (header.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = object.base + header.p_vaddr;
    if (place >= begin && place - begin < header.p_memsz) return true;
  }
  return false;
}

bool object_at(const void* address, Object& out) {
  return each_object([&](const Object& object) { return covers(object, address) && (out = object, true); });
}

bool object_named(const char* soname, Object& out) {
  return each_object([&](const Object& object) {
    const char* const name = soname_of(object);
    return name != nullptr && same_text(name, soname) && (out = object, true);
  });
}

bool early_object_named(const char* soname, Object& out) {
  if (&_r_debug == nullptr) return false;
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    const Object object{map->l_addr, nullptr, 0, map->l_name, map->l_ld};
    const char* name = object.dynamic == nullptr ? nullptr : soname_of(object);
    if (name == nullptr || !same_text(name, soname)) continue;
    out = object;
    return true;
  }
  return false;
}

}  // namespace headgate::bare
