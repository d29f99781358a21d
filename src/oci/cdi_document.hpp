// A CDI document (Container Device Interface 0.3.0 to 1.1.0): devices by name, and the edits for containers that
// request them. Plain values; empty texts, lists and optionals are fields that the document lacks. Source: the CDI
// specification, https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headgate::oci {

struct DeviceNode {
  std::string path;       // in the container
  std::string host_path;  // empty: the same as `path`
  std::string type;       // b, c, u, p; if empty, the engine reads it from the host's node, like major and minor
  std::optional<std::int64_t> major, minor;
  std::optional<std::uint32_t> file_mode;
  std::string permissions;  // letters r, w, m; empty: rwm
  std::optional<std::uint32_t> uid, gid;
  friend bool operator==(const DeviceNode&, const DeviceNode&) = default;
};

struct Mount {
  std::string host_path, container_path, type = {};
  std::vector<std::string> options = {};
  friend bool operator==(const Mount&, const Mount&) = default;
};

inline constexpr std::array<const char*, 6> kHookNames = {"prestart",       "createRuntime", "createContainer",
                                                          "startContainer", "poststart",     "poststop"};
struct Hook {
  std::string name;  // one of kHookNames
  std::string path;
  std::vector<std::string> args, env;
  std::optional<std::int64_t> timeout_s;
  friend bool operator==(const Hook&, const Hook&) = default;
};

struct NetDevice {
  std::string host_interface, name;
  friend bool operator==(const NetDevice&, const NetDevice&) = default;
};

struct IntelRdt {
  std::string clos_id, l3_cache_schema, mem_bw_schema;
  bool enable_cmt = false, enable_mbm = false;
  std::vector<std::string> schemata;
  bool enable_monitoring = false;
  friend bool operator==(const IntelRdt&, const IntelRdt&) = default;
};

struct Edits {
  std::vector<std::string> env;  // NAME=VALUE
  std::vector<DeviceNode> device_nodes;
  std::vector<NetDevice> net_devices;
  std::vector<Hook> hooks;
  std::vector<Mount> mounts;
  std::optional<IntelRdt> intel_rdt;
  std::vector<std::uint32_t> additional_gids;
  friend bool operator==(const Edits&, const Edits&) = default;
};

using Annotations = std::map<std::string, std::string>;

struct Device {
  std::string name;
  Annotations annotations = {};
  Edits edits;
  friend bool operator==(const Device&, const Device&) = default;
};

struct Document {
  std::string version = {};  // "0.4.0"
  std::string kind;          // VENDOR/CLASS
  Annotations annotations = {};
  std::vector<Device> devices = {};
  Edits edits = {};  // once per container that requests any device
  friend bool operator==(const Document&, const Document&) = default;
};

// Returns the lowest version that has all the fields used: engines refuse unknown versions, podman 4.3 all from 0.6.0
// on.
[[nodiscard]] std::string minimum_version(const Document& document);
// Returns the index of "0.5.0" in the list of versions, oldest first; empty if unknown.
[[nodiscard]] std::optional<std::size_t> version_place(std::string_view version);

// kept: adds entries that `to` has again, as engines do. dropped: skips them, because devices repeat common edits.
enum class Repeats { kept, dropped };
// Appends `more` to each list of `to`; of two classes of service the later wins.
void add(Edits& to, const Edits& more, Repeats repeats);

// Formats as JSON with a final newline. `version` is written unchanged.
[[nodiscard]] std::string to_json(const Document& document);
// Formats parts of a document with their field names.
[[nodiscard]] nlohmann::ordered_json to_json(const Hook& hook);
[[nodiscard]] nlohmann::ordered_json to_json(const IntelRdt& rdt);

// CDI names: a device is requested as VENDOR/CLASS=NAME. Letters and digits are ASCII only.
// Returns true if it starts and ends with a letter or digit; '_', '-', '.' and ':' are allowed inside.
[[nodiscard]] bool is_device_name(std::string_view name);
// Return true if it starts with a letter and ends with a letter or digit; '_', '-' and '.' are allowed inside.
[[nodiscard]] bool is_vendor_name(std::string_view name);
[[nodiscard]] bool is_class_name(std::string_view name);
// Returns true for VENDOR/CLASS.
[[nodiscard]] bool is_kind(std::string_view kind);

}  // namespace headgate::oci
