// Files and directories that decide what a daemon does must be nobody else's to write.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/result.hpp"

namespace headgate {

// Whether a file or directory, by its stat(), is ours or root's and only its owner may write it, and a file has no
// second name. Errors: denied, with what is wrong and the command that puts it right.
[[nodiscard]] Result<void> check_owned(const std::string& path, const struct stat& facts);

}  // namespace headgate
