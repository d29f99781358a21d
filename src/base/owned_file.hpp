// Checks that files and directories that control a daemon are writable only by their owner.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/result.hpp"

namespace headgate {

// Checks a file or directory by its stat(): owned by us or root, writable only by its owner, and for a file, without a
// second hard link. Errors: denied, with the problem and the command that fixes it.
[[nodiscard]] Result<void> check_owned(const std::string& path, const struct stat& facts);

}  // namespace headgate
