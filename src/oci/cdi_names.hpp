// CDI names: a device is requested as VENDOR/CLASS=NAME. Letters and digits are ASCII only.
#pragma once

#include <string_view>

namespace headgate::oci {

// Returns true if it starts and ends with a letter or digit; '_', '-', '.' and ':' are allowed inside.
[[nodiscard]] bool is_device_name(std::string_view name);
// Return true if it starts with a letter and ends with a letter or digit; '_', '-' and '.' are allowed inside.
[[nodiscard]] bool is_vendor_name(std::string_view name);
[[nodiscard]] bool is_class_name(std::string_view name);
// Returns true for VENDOR/CLASS.
[[nodiscard]] bool is_kind(std::string_view kind);

}  // namespace headgate::oci
