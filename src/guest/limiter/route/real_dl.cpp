#include "guest/limiter/route/real_dl.hpp"

#include <dlfcn.h>

#include <atomic>

#include "guest/bare/elf.hpp"

namespace headgate::limiter {
namespace {

RealDl found;
std::atomic<bool> searched{false};

// All versions of dlsym behave alike, so symbol_in() may return any.
void search(const char* soname) {
  bare::Object library;
  if (!bare::early_object_named(soname, library) && !bare::object_named(soname, library)) return;
  void* dlsym_address = bare::symbol_in(library, "dlsym");
  void* dlvsym_address = bare::symbol_in(library, "dlvsym");
  if (dlsym_address != nullptr) {
    __atomic_store_n(&found.dlsym, reinterpret_cast<decltype(found.dlsym)>(dlsym_address), __ATOMIC_RELAXED);
  }
  if (dlvsym_address != nullptr) {
    __atomic_store_n(&found.dlvsym, reinterpret_cast<decltype(found.dlvsym)>(dlvsym_address), __ATOMIC_RELAXED);
  }
}

}  // namespace

const RealDl& real_dl() {
  if (!searched.load(std::memory_order_acquire)) {
    search("libdl.so.2");
    search("libc.so.6");
    searched.store(true, std::memory_order_release);  // racing searches store the same values
  }
  return found;
}

void* open_library(const char* name, int mode) { return ::dlopen(name, mode); }

void close_library(void* handle) { ::dlclose(handle); }

}  // namespace headgate::limiter
