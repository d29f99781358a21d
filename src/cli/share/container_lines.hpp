// How a container is started in a share: the lines for podman, Docker and Compose, or why engines cannot be given the
// share.
#pragma once

#include <string>

#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Why no engine of this user's finds the share's CDI file; empty: it does. Looks at the file.
[[nodiscard]] std::string cdi_trouble(const snapshot::Share& share);

// Several lines, or one that says why not; empty where no daemon keeps the share.
[[nodiscard]] std::string container_lines(const snapshot::Share& share);

}  // namespace headgate::cli
