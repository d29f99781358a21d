// A descriptor that cannot be made writable again where we have the right to see to that.
#pragma once

#include <string>

#include "base/unique_fd.hpp"

namespace headgate::tenancy {

// DIRECTORY/NAME for reading. With CAP_SYS_ADMIN it is opened through a read-only mount of its own that is attached
// nowhere, so that /proc/self/fd does not lead a tenant that is root to a writable one (Linux 5.12); without, the
// file's permissions are what keeps others from it. Empty, with errno, where it cannot be opened.
[[nodiscard]] UniqueFd open_read_only_mount(const std::string& directory, const std::string& name);

}  // namespace headgate::tenancy
