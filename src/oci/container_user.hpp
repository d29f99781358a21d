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

// By process.user, and the mappings of the container's user namespace. Numbers that no mapping has become 65534, as in
// the kernel; so do all of a namespace that is joined, whose mappings are not said.
[[nodiscard]] ContainerUser container_user(const ContainerConfig& config);

}  // namespace headgate::oci
