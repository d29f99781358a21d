// The table of names as data, for look-ups, the doctor's symbol check and tests.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace headgate::abi {

enum class Kind : std::uint8_t { alloc, free, launch, order, view, lifecycle, pass, data };

struct Name {
  std::string_view name;
  Kind kind;
  bool has_signature;
};

// Sorted by name in byte order, without duplicates.
std::span<const Name> cuda_names();
std::span<const Name> nvml_names();

// Return nullptr if the name is unknown.
const Name* find_cuda(std::string_view name);
const Name* find_nvml(std::string_view name);

}  // namespace headgate::abi
