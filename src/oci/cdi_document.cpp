#include "oci/cdi_document.hpp"

#include <algorithm>

namespace headgate::oci {
namespace {

constexpr std::array<std::string_view, 8> kVersions = {"0.3.0", "0.4.0", "0.5.0", "0.6.0",
                                                       "0.7.0", "0.8.0", "1.0.0", "1.1.0"};
// Indices of versions that added fields; 0.8.0 and 1.0.0 added none.
constexpr std::size_t k030 = 0, k040 = 1, k050 = 2, k060 = 3, k070 = 4, k110 = 7;

std::size_t needed_by(const Edits& edits) {
  const auto has_type = [](const Mount& mount) { return !mount.type.empty(); };
  const auto has_host_path = [](const DeviceNode& node) { return !node.host_path.empty(); };
  const bool new_rdt = edits.intel_rdt && (!edits.intel_rdt->schemata.empty() || edits.intel_rdt->enable_monitoring);
  if (!edits.net_devices.empty() || new_rdt) return k110;
  if (edits.intel_rdt || !edits.additional_gids.empty()) return k070;
  if (std::ranges::any_of(edits.device_nodes, has_host_path)) return k050;
  return std::ranges::any_of(edits.mounts, has_type) ? k040 : k030;
}

bool begins_with_digit(const std::string& name) { return !name.empty() && name[0] >= '0' && name[0] <= '9'; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_alphanumeric(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

bool is_name(std::string_view name, bool (*first)(char), std::string_view inside) {
  return !name.empty() && first(name.front()) && is_alphanumeric(name.back()) &&
         std::ranges::all_of(name, [&](char c) { return is_alphanumeric(c) || inside.contains(c); });
}

}  // namespace

std::optional<std::size_t> version_place(std::string_view version) {
  const auto found = std::ranges::find(kVersions, version);
  if (found == kVersions.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kVersions.begin());
}

std::string minimum_version(const Document& document) {
  std::size_t needed = needed_by(document.edits);
  const std::string& kind = document.kind;
  const bool dot_in_class = kind.find('.', std::min(kind.find('/'), kind.size())) != std::string::npos;
  if (!document.annotations.empty() || dot_in_class) needed = std::max(needed, k060);
  for (const Device& device : document.devices) {
    needed = std::max(needed, needed_by(device.edits));
    if (begins_with_digit(device.name)) needed = std::max(needed, k050);
    if (!device.annotations.empty()) needed = std::max(needed, k060);
  }
  return std::string(kVersions[needed]);
}

void add(Edits& to, const Edits& more, Repeats repeats) {
  const auto put = [&](auto& list, const auto& values) {
    for (const auto& each : values)
      if (repeats == Repeats::kept || std::ranges::find(list, each) == list.end()) list.push_back(each);
  };
  put(to.env, more.env);
  put(to.device_nodes, more.device_nodes);
  put(to.net_devices, more.net_devices);
  put(to.hooks, more.hooks);
  put(to.mounts, more.mounts);
  if (more.intel_rdt) to.intel_rdt = more.intel_rdt;
  put(to.additional_gids, more.additional_gids);
}

bool is_device_name(std::string_view name) { return is_name(name, is_alphanumeric, "_-.:"); }
bool is_vendor_name(std::string_view name) { return is_name(name, is_letter, "_-."); }
bool is_class_name(std::string_view name) { return is_name(name, is_letter, "_-."); }

bool is_kind(std::string_view kind) {
  const auto slash = kind.find('/');
  return slash != std::string_view::npos && is_vendor_name(kind.substr(0, slash)) &&
         is_class_name(kind.substr(slash + 1));
}

}  // namespace headgate::oci
