// Looks up symbols in this process's libraries without the dynamic linker's functions: we export dlsym, so we cannot
// find the real one by calling it.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace headgate::bare {

// A loaded object as dl_iterate_phdr shows it. Valid as long as the object stays loaded.
struct Object {
  std::uintptr_t base = 0;
  const ElfW(Phdr) * headers = nullptr;
  std::size_t header_count = 0;
  const char* path = nullptr;           // "" for the program itself
  const ElfW(Dyn) * dynamic = nullptr;  // where it is known without the headers
};

// strcmp() may not work yet: see early_object_named().
inline bool same_text(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

// Returns the object's DT_SONAME, or nullptr.
const char* soname_of(const Object& object);

// Returns the address of a function or object that this object defines (not merely uses), in any version, or nullptr.
// Does not resolve indirect functions (STT_GNU_IFUNC): returns nullptr.
void* symbol_in(const Object& object, const char* name);

// Returns the definition's entry in the object's dynamic symbol table, or nullptr.
const ElfW(Sym) * symbol_entry_in(const Object& object, const char* name);

// Returns whether one of the object's segments covers the address.
bool covers(const Object& object, const void* address);

// Calls visit(object) for each loaded object in load order until it returns true; returns whether one did. Holds the
// dynamic linker's list lock: visit must not load, unload or look up.
template <typename Visit>
bool each_object(Visit visit) {
  const auto step = [](dl_phdr_info* info, std::size_t, void* raw) {
    const Object object{info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum,
                        info->dlpi_name == nullptr ? "" : info->dlpi_name};
    return (*static_cast<Visit*>(raw))(object) ? 1 : 0;
  };
  return dl_iterate_phdr(step, &visit) != 0;
}

// Finds the object that covers the address; false if none does.
bool object_at(const void* address, Object& out);

// Finds the first object with that DT_SONAME; false if none is loaded.
bool object_named(const char* soname, Object& out);

// Like object_named(), but walks the dynamic linker's list without calling libc: a sanitizer's run-time looks names up
// before its libc wrappers work. Only symbol_in() and soname_of() work on the result. The list is not locked: only for
// libraries that are loaded at the start and stay.
bool early_object_named(const char* soname, Object& out);

}  // namespace headgate::bare
