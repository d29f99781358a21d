// Maps names to entries for cuGetProcAddress.
#pragma once

#include <string_view>
#include <vector>

#include "guest/abi/cuda.hpp"

namespace headgate::sim::driver {

struct ProcAddress {
  const void* entry = nullptr;
  abi::CUdriverProcAddressQueryResult status = abi::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

// Versions are 1000 * major + 10 * minor.
[[nodiscard]] ProcAddress find_proc_address(std::string_view name, int version, bool per_thread, int driver_version);

// Returns the entry exported under exactly this name, or null.
[[nodiscard]] const void* entry_address(std::string_view name);

// Returns the entries that are newer than that CUDA version.
[[nodiscard]] std::vector<const char*> entries_newer_than(int driver_version);

}  // namespace headgate::sim::driver
