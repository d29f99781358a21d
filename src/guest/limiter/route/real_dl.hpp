// The dynamic linker's own look-up functions. We export dlsym and dlvsym, so ours would be found first.
#pragma once

namespace headgate::limiter {

struct RealDl {
  void* (*dlsym)(void* handle, const char* name) = nullptr;
  void* (*dlvsym)(void* handle, const char* name, const char* version) = nullptr;
};

// Found once by reading libc's (before glibc 2.34: libdl's) symbol table. A member is null where it could not be found.
// Thread-safe; after the first call one acquire load.
const RealDl& real_dl();

// dlopen and dlclose as the program knows them. mode as for dlopen(); nullptr where the library cannot be loaded.
void* open_library(const char* name, int mode);
void close_library(void* handle);

}  // namespace headgate::limiter
