// The dynamic linker's lookup functions. We export dlsym and dlvsym, so a normal lookup would find ours.
#pragma once

namespace headgate::limiter {

struct RealDl {
  void* (*dlsym)(void* handle, const char* name) = nullptr;
  void* (*dlvsym)(void* handle, const char* name, const char* version) = nullptr;
};

// Finds them once by reading libc's (before glibc 2.34: libdl's) symbol table. A member is null if not found.
// Thread-safe; after the first call one acquire load.
const RealDl& real_dl();

// dlopen and dlclose as the program sees them. mode as for dlopen(); nullptr if the library cannot be loaded.
void* open_library(const char* name, int mode);
void close_library(void* handle);

}  // namespace headgate::limiter
