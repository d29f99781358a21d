// For test programs that open the driver with dlopen: CALL(cuInit)(0). A missing function ends the program.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "guest/abi/cuda.hpp"

namespace headgate::e2e {

template <typename Function>
Function* found(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  auto* function = library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
  if (!function) std::printf("no %s\n", name), std::exit(3);
  return function;
}

}  // namespace headgate::e2e

#define CALL(name) headgate::e2e::found<name##_t>(#name)
