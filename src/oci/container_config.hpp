// Edits the config.json of an OCI bundle as JSON, leaving unknown fields unchanged. Source: the OCI runtime
// specification, https://github.com/opencontainers/runtime-spec/blob/main/config.md
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"
#include "oci/json_text.hpp"

namespace headgate::oci {

// A device node on the host.
struct HostNode {
  char type = 'c';  // b, c, p
  std::int64_t major = 0, minor = 0;
  std::uint32_t mode = 0;  // permission bits
};
// Inspects a path without following links. Errors: with a message.
using FindHostNode = std::function<Result<HostNode>(const std::string& path)>;

class ContainerConfig {
 public:
  ContainerConfig(const ContainerConfig& other);
  ContainerConfig(ContainerConfig&& other) noexcept;
  ContainerConfig& operator=(ContainerConfig other) noexcept;
  ~ContainerConfig();

  // Errors: usage; the message starts with the place: "config.json: process.env[2]: is no text".
  [[nodiscard]] static Result<ContainerConfig> read(std::string_view text);

  [[nodiscard]] std::string text() const;
  [[nodiscard]] const Json& json() const { return *json_; }
  // Returns the value at a path of objects: {"process", "args"}; null if there is none.
  using Path = std::vector<const char*>;
  [[nodiscard]] const Json* at(const Path& path) const;

  // Returns the last entry of that name, which programs see; empty if there is none.
  [[nodiscard]] std::optional<std::string> variable(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> environment() const;
  [[nodiscard]] std::optional<std::string> annotation(const std::string& name) const;
  // Returns the root file system, relative to the bundle; empty if not set.
  [[nodiscard]] std::string root() const;
  // Returns the source of the mount at that path; empty text if the mount has none.
  [[nodiscard]] std::optional<std::string> source_of(std::string_view destination) const;

  // Appends it whatever is there, as Docker does.
  void append_variable(std::string_view name, std::string_view value);
  void remove_variable(std::string_view name);
  void append_hook(const std::string& name, Json hook);
  // Removes the hooks for which `is` returns true.
  void remove_hooks(const std::function<bool(const std::string& path)>& is);
  [[nodiscard]] bool has_hook(const std::function<bool(const std::string& path)>& is) const;

  // Sets the source of the mounts at that destination; if `source` is empty, removes them.
  void set_source(std::string_view destination, const std::string& source);

  // Applies edits like the CDI library: variables, device nodes and mounts replace those of the same name or path;
  // mounts are then sorted by depth. Missing facts of a device node come from the host. Errors: those of `find`; usage
  // if the host's node has another type. After an error the configuration is partly edited.
  [[nodiscard]] Result<void> apply(const Edits& edits, const FindHostNode& find);

  friend bool operator==(const ContainerConfig& one, const ContainerConfig& other);

 private:
  explicit ContainerConfig(Json json);
  void set_variable(const std::string& entry);
  Result<void> add_node(DeviceNode node, const FindHostNode& find);
  void add_mount(const Mount& mount);

  std::unique_ptr<Json> json_;  // null only after a move
};

struct ContainerUser {
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;
  bool has_user_namespace = false;  // a new one, or another container's

  friend bool operator==(const ContainerUser&, const ContainerUser&) = default;
};

// Returns the user by process.user and the mappings of the container's user namespace. Unmapped IDs become 65534, as in
// the kernel. If the container joins an existing user namespace, its mappings are unknown, so all IDs become 65534.
[[nodiscard]] ContainerUser container_user(const ContainerConfig& config);

}  // namespace headgate::oci
