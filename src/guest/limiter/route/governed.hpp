// The functions that this library hooks, by name: all functions of the two tables that are not marked pass.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace headgate::limiter {

struct Governed {
  const char* name;
  void* hook;         // ours
  void* const* real;  // where driver.hpp stores the loaded library's function
  bool is_nvml;
};

// Sorted by name.
std::span<const Governed> governed_cuda();

// Returns nullptr for a name that is not hooked.
const Governed* find_governed(std::string_view name);

}  // namespace headgate::limiter
