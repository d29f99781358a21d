#include "oci/cdi_names.hpp"

#include <algorithm>

namespace headgate::oci {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_alphanumeric(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

bool is_name(std::string_view name, bool (*first)(char), std::string_view inside) {
  return !name.empty() && first(name.front()) && is_alphanumeric(name.back()) &&
         std::ranges::all_of(name, [&](char c) { return is_alphanumeric(c) || inside.contains(c); });
}

}  // namespace

bool is_device_name(std::string_view name) { return is_name(name, is_alphanumeric, "_-.:"); }
bool is_vendor_name(std::string_view name) { return is_name(name, is_letter, "_-."); }
bool is_class_name(std::string_view name) { return is_name(name, is_letter, "_-."); }

bool is_kind(std::string_view kind) {
  const auto slash = kind.find('/');
  return slash != std::string_view::npos && is_vendor_name(kind.substr(0, slash)) &&
         is_class_name(kind.substr(slash + 1));
}

}  // namespace headgate::oci
