// How to start a container in a share: lines for podman, Docker and Compose, or why engines cannot use the share.
#pragma once

#include <string>

#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Returns why this user's engines do not find the share's CDI file; empty if they do. Reads the file.
[[nodiscard]] std::string cdi_trouble(const snapshot::Share& share);

// Returns several lines, or one that says why not; empty if no daemon keeps the share.
[[nodiscard]] std::string container_lines(const snapshot::Share& share);

}  // namespace headgate::cli
