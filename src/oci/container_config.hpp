// The config.json of an OCI bundle, edited as the JSON that it is: fields that are not named here stay as they are.
// Source: the OCI runtime specification, https://github.com/opencontainers/runtime-spec/blob/main/config.md
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

// What a device node of the host is.
struct HostNode {
  char type = 'c';  // b, c, p
  std::int64_t major = 0, minor = 0;
  std::uint32_t mode = 0;  // permission bits
};
// Looks at a path, and follows no link. Errors: with a sentence.
using FindHostNode = std::function<Result<HostNode>(const std::string& path)>;

class ContainerConfig {
 public:
  ContainerConfig(const ContainerConfig& other);
  ContainerConfig(ContainerConfig&& other) noexcept;
  ContainerConfig& operator=(ContainerConfig other) noexcept;
  ~ContainerConfig();

  // Errors: usage; the message begins with where it is: "config.json: process.env[2]: is no text".
  [[nodiscard]] static Result<ContainerConfig> read(std::string_view text);

  [[nodiscard]] std::string text() const;
  [[nodiscard]] const Json& json() const { return *json_; }

  // Of several entries of one name, programs see the last; empty: there is none.
  [[nodiscard]] std::optional<std::string> variable(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> environment() const;
  [[nodiscard]] std::optional<std::string> annotation(const std::string& name) const;
  // Of its root file system, relative to the bundle; empty: it says none.
  [[nodiscard]] std::string root() const;
  // What is mounted there: empty text where the mount has no source.
  [[nodiscard]] std::optional<std::string> source_of(std::string_view destination) const;

  // At the end, whatever is there, as Docker does it.
  void append_variable(std::string_view name, std::string_view value);
  void remove_variable(std::string_view name);
  void append_hook(const std::string& name, Json hook);
  // Removes the hooks for which `is` returns true.
  void remove_hooks(const std::function<bool(const std::string& path)>& is);
  [[nodiscard]] bool has_hook(const std::function<bool(const std::string& path)>& is) const;

  // Of the mounts at that destination: another source, or, if it is empty, none of them stays.
  void set_source(std::string_view destination, const std::string& source);

  // As the CDI library does it: a variable, a device node and a mount replace what has their name or place; mounts are
  // then sorted by depth. What the document does not say of a device node is the host's. Errors: of `find`, and usage
  // where the host's node is of another type. After an error the configuration is edited in part.
  [[nodiscard]] Result<void> apply(const Edits& edits, const FindHostNode& find);

  friend bool operator==(const ContainerConfig& one, const ContainerConfig& other);

 private:
  explicit ContainerConfig(Json json);
  void set_variable(const std::string& entry);
  Result<void> add_node(DeviceNode node, const FindHostNode& find);
  void add_mount(const Mount& mount);

  std::unique_ptr<Json> json_;  // never null but in what was moved from
};

}  // namespace headgate::oci
