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

// X-table selectors: HEADGATE_GOVERNED_<kind>(text) expands to the text for hooked kinds, to nothing for pass.
#define HEADGATE_GOVERNED_alloc(...) __VA_ARGS__
#define HEADGATE_GOVERNED_free(...) __VA_ARGS__
#define HEADGATE_GOVERNED_launch(...) __VA_ARGS__
#define HEADGATE_GOVERNED_order(...) __VA_ARGS__
#define HEADGATE_GOVERNED_view(...) __VA_ARGS__
#define HEADGATE_GOVERNED_lifecycle(...) __VA_ARGS__
#define HEADGATE_GOVERNED_pass(...)
