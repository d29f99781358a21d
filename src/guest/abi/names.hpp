// The table of names as data, for look-ups, the doctor's symbol check and tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace headgate::abi {

enum class Kind : std::uint8_t { alloc, free, launch, order, view, lifecycle, pass, data };

struct Name {
  std::string_view name;  // NUL-terminated
  Kind kind;
  bool has_signature;
  int since;  // of cuda_table.def; 0 in NVML's
};

// Returns whether null means the per-thread default stream in a function of this name.
constexpr bool is_per_thread(std::string_view name) { return name.ends_with("_ptsz") || name.ends_with("_ptds"); }

// Returns the name by which cuGetProcAddress knows a function: cuMemcpyHtoD for cuMemcpyHtoD_v2_ptds.
constexpr std::string_view base_of(std::string_view name) {
  if (is_per_thread(name)) name.remove_suffix(5);
  const std::size_t end = name.size() < 3 ? 0 : name.size() - 3;
  return name.substr(end).starts_with("_v") ? name.substr(0, end) : name;
}

// Sorted by name in byte order, without duplicates.
std::span<const Name> cuda_names();
std::span<const Name> nvml_names();

// Returns all rows whose names begin with `prefix`.
std::span<const Name> cuda_names_from(std::string_view prefix);

// Return nullptr if the name is unknown.
const Name* find_cuda(std::string_view name);
const Name* find_nvml(std::string_view name);

}  // namespace headgate::abi
