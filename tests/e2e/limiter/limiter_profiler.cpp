// Like a profiler that users preload: it wraps an allocation and a launch, found by symbol and through its dlsym. It
// passes them on to the next library, and prints at the end how many it saw.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "guest/abi/cuda.hpp"

using namespace headgate::abi;

namespace {

using Dlsym = void* (*)(void*, const char*);

std::atomic<unsigned> allocations{0}, lookups{0};
std::atomic<cuMemAlloc_v2_t*> next_alloc{nullptr};

Dlsym next_dlsym() {
  // glibc has exported dlsym under these versions.
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"})
    if (void* found = dlvsym(RTLD_NEXT, "dlsym", version); found != nullptr) return reinterpret_cast<Dlsym>(found);
  return nullptr;
}

struct Report {
  ~Report() { std::fprintf(stderr, "profiler: %u allocations, %u lookups\n", allocations.load(), lookups.load()); }
} report;

}  // namespace

extern "C" CUresult cuMemAlloc_v2(CUdeviceptr* pointer, std::size_t bytes) {
  ++allocations;
  if (next_alloc == nullptr) next_alloc = reinterpret_cast<cuMemAlloc_v2_t*>(next_dlsym()(RTLD_NEXT, "cuMemAlloc_v2"));
  return next_alloc.load()(pointer, bytes);
}

extern "C" void* dlsym(void* handle, const char* name) noexcept {
  static const Dlsym next = next_dlsym();
  ++lookups;
  void* const found = next(handle, name);
  if (std::strcmp(name, "cuMemAlloc_v2") != 0 || found == nullptr) return found;
  next_alloc = reinterpret_cast<cuMemAlloc_v2_t*>(found);
  return reinterpret_cast<void*>(&cuMemAlloc_v2);
}
