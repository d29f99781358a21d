// The names of CDI: a device is asked for by VENDOR/CLASS=NAME. Letters and digits are ASCII's.
#pragma once

#include <string_view>

namespace headgate::oci {

// Begins and ends with a letter or a digit; inside also '_', '-', '.' and ':'.
[[nodiscard]] bool is_device_name(std::string_view name);
// Begins with a letter, ends with a letter or a digit; inside also '_', '-' and '.'.
[[nodiscard]] bool is_vendor_name(std::string_view name);
[[nodiscard]] bool is_class_name(std::string_view name);
// VENDOR/CLASS.
[[nodiscard]] bool is_kind(std::string_view kind);

}  // namespace headgate::oci
