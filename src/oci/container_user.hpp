// Which user of the host a container's first program is. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "oci/container_config.hpp"

namespace headgate::oci {

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
