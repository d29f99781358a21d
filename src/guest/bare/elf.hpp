// Looking symbols up in the libraries of this process without the dynamic linker's own look-up functions: we export
// dlsym, so we cannot find the real one by calling it.
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

// Its DT_SONAME, or nullptr.
const char* soname_of(const Object& object);

// The address of a function or object that it defines (not merely uses), of any version; nullptr where there is none.
// Indirect functions (STT_GNU_IFUNC) are not resolved: nullptr.
void* symbol_in(const Object& object, const char* name);

// Its entry in the object's dynamic symbol table; nullptr where it defines none of that name.
const ElfW(Sym) * symbol_entry_in(const Object& object, const char* name);

// Whether one of its segments covers the address.
bool covers(const Object& object, const void* address);

// Calls visit(object, context) for each loaded object in load order until it answers true; answers whether one did.
// Holds the dynamic linker's list lock meanwhile: visit must not load, unload or look up.
bool each_object(bool (*visit)(const Object&, void*), void* context);

// The object that covers the address; false where none does.
bool object_at(const void* address, Object& out);

// The first object of that DT_SONAME; false where none is loaded.
bool object_named(const char* soname, Object& out);

// The same by the dynamic linker's own list, without a call into libc: a sanitizer's run-time library looks names up
// while the functions of libc that it stands in for lead nowhere yet. Only symbol_in() and soname_of() work on the
// result. For libraries that are there from the start and stay: the list is not locked.
bool early_object_named(const char* soname, Object& out);

}  // namespace headgate::bare
