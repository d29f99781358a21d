// Opens a file so that its descriptor cannot be made writable again, if we have the right to ensure that.
#pragma once

#include <string>

#include "base/unique_fd.hpp"

namespace headgate::tenancy {

// Opens DIRECTORY/NAME for reading. With CAP_SYS_ADMIN it goes through a detached read-only mount, so that
// /proc/self/fd gives a tenant that is root no writable descriptor (Linux 5.12). Without, only the file's permissions
// protect it. Returns an empty descriptor and sets errno if it cannot be opened.
[[nodiscard]] UniqueFd open_read_only_mount(const std::string& directory, const std::string& name);

}  // namespace headgate::tenancy
