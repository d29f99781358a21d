#include <algorithm>
#include <optional>
#include <set>

#include "base/joined.hpp"
#include "base/utf8.hpp"
#include "oci/cdi_document.hpp"
#include "oci/cdi_read.hpp"

namespace headgate::oci {
namespace {

// Finds the first error in one set of edits; empty if there is none.
class EditsCheck {
 public:
  explicit EditsCheck(std::string at) : at_(std::move(at)) {}

  Result<void> look(const Edits& edits) {
    env(edits.env, "env");
    for (std::size_t i = 0; i < edits.device_nodes.size(); ++i) node(edits.device_nodes[i], place("deviceNodes", i));
    std::set<std::string> hosts, names;
    for (std::size_t i = 0; i < edits.net_devices.size(); ++i) {
      const NetDevice& device = edits.net_devices[i];
      const std::string at = place("netDevices", i);
      filled(device.host_interface, at + ".hostInterfaceName");
      filled(device.name, at + ".name");
      if (!hosts.insert(device.host_interface).second || !names.insert(device.name).second)
        complain(at, "names an interface for the second time");
    }
    for (std::size_t i = 0; i < edits.hooks.size(); ++i) hook(edits.hooks[i], place("hooks", i));
    for (std::size_t i = 0; i < edits.mounts.size(); ++i) {
      filled(edits.mounts[i].host_path, place("mounts", i) + ".hostPath");
      filled(edits.mounts[i].container_path, place("mounts", i) + ".containerPath");
    }
    if (edits.intel_rdt) class_of_service(edits.intel_rdt->clos_id);
    if (!wrong_) return {};
    return std::unexpected(*wrong_);
  }

 private:
  static std::string place(const char* list, std::size_t i) {
    return std::string(list) + "[" + std::to_string(i) + "]";
  }
  void complain(const std::string& at, const std::string& what, const std::string& hint = {}) {
    if (!wrong_) wrong_ = Error{ErrorCode::usage, at_ + "." + at + ": " + what, hint};
  }
  void filled(const std::string& text, const std::string& at) {
    if (text.empty()) complain(at, "is empty");
  }
  void env(const std::vector<std::string>& all, const std::string& at) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto equals = all[i].find('=');
      if (equals == 0 || equals == std::string::npos)
        complain(at + "[" + std::to_string(i) + "]", "'" + printable(all[i], 80) + "' is no NAME=VALUE");
    }
  }
  void node(const DeviceNode& node, const std::string& at) {
    filled(node.path, at + ".path");
    if (node.type.size() > 1 || std::string_view("bcup").find(node.type) == std::string_view::npos)
      complain(at + ".type", "'" + printable(node.type, 80) + "' is no kind of node", "accepted: b, c, u, p");
    // Only cgroup rules use -1, for all devices.
    if (node.major.value_or(0) < 0 || node.minor.value_or(0) < 0) complain(at, "has a negative number");
    if (node.permissions != "none" && node.permissions.find_first_not_of("rwm") != std::string::npos)
      complain(at + ".permissions", "'" + printable(node.permissions, 80) + "' is not understood",
               "accepted: letters of rwm, or none");
  }
  void hook(const Hook& hook, const std::string& at) {
    if (std::ranges::find(kHookNames, std::string_view(hook.name)) == kHookNames.end())
      complain(at + ".hookName", "'" + printable(hook.name, 80) + "' is no hook",
               "accepted: " + joined(kHookNames, ", "));
    filled(hook.path, at + ".path");
    env(hook.env, at + ".env");
  }
  // Must be a directory name below /sys/fs/resctrl, or "/".
  void class_of_service(const std::string& id) {
    const bool bad = id == "." || id == ".." || id.size() >= 4096 || id.find_first_of("/\n") != std::string::npos;
    if (bad && id != "/") complain("intelRdt.closID", "'" + printable(id, 80) + "' names no directory");
  }

  std::string at_;
  std::optional<Error> wrong_;
};

std::unexpected<Error> refuse(const std::string& at, const std::string& what, const std::string& hint = {}) {
  return fail(ErrorCode::usage, at + ": " + what, hint);
}

}  // namespace

Result<void> check(const Document& document) {
  const auto declared = version_place(document.version);
  if (!declared)
    return refuse("cdiVersion", "'" + printable(document.version, 80) + "' is no version of CDI",
                  "accepted: 0.3.0, 0.4.0, 0.5.0, 0.6.0, 0.7.0, 0.8.0, 1.0.0, 1.1.0");
  if (!is_kind(document.kind))
    return refuse("kind", "'" + printable(document.kind, 80) + "' is no kind of device", "accepted: VENDOR/CLASS");
  if (document.devices.empty()) return refuse("devices", "there is none");
  std::set<std::string> names;
  for (std::size_t i = 0; i < document.devices.size(); ++i) {
    const Device& device = document.devices[i];
    const std::string at = "devices[" + std::to_string(i) + "]";
    if (!is_device_name(device.name))
      return refuse(at + ".name", "'" + printable(device.name, 80) + "' names no device",
                    "accepted: letters, digits, '_', '-', '.' and ':', with a letter or digit first and last");
    if (!names.insert(device.name).second) return refuse(at + ".name", "'" + device.name + "' is there twice");
    if (device.edits == Edits{}) return refuse(at + ".containerEdits", "there are none");
    TRY(EditsCheck(at + ".containerEdits").look(device.edits));
  }
  TRY(EditsCheck("containerEdits").look(document.edits));
  if (const std::string least = minimum_version(document); *version_place(least) > *declared)
    return refuse("cdiVersion", document.version + " does not have all fields of the document", "at least " + least);
  return {};
}

}  // namespace headgate::oci
