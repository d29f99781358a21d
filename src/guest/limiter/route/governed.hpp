// The functions that this library stands in for, by name: everything of the two tables that is not marked pass.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace headgate::limiter {

struct Governed {
  const char* name;
  void* hook;         // ours
  void* const* real;  // where driver.hpp keeps the loaded library's own
  bool is_nvml;
};

// Sorted by name.
std::span<const Governed> governed_cuda();

// nullptr for a name that is not ours.
const Governed* find_governed(std::string_view name);

}  // namespace headgate::limiter
