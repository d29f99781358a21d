// The simulated NVML for tests of all its functions: with the names of every release.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace headgate::sim::nvml {

// Which release's names dlsym finds is settled when the library is loaded. nullptr: see dlerror().
inline void* load_with_all_names() {
  const char* const node = std::getenv("HEADGATE_SIM_DIR");
  const std::string before = node == nullptr ? "" : node;
  ::unsetenv("HEADGATE_SIM_DIR");
  ::setenv("HEADGATE_SIM_PROFILE", "h200-r615", 1);
  void* const library = ::dlopen(HEADGATE_SIM_NVML, RTLD_NOW | RTLD_LOCAL);
  ::unsetenv("HEADGATE_SIM_PROFILE");
  if (!before.empty()) ::setenv("HEADGATE_SIM_DIR", before.c_str(), 1);
  return library;
}

}  // namespace headgate::sim::nvml
