// Replaces a file atomically: writes and syncs a new one beside it, then renames it.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::cli {

// `path` is relative to the directory `at` (AT_FDCWD: the current one); `mode` applies whatever the umask. Readers see
// the old file or the new one, and mappings of the old one stay valid. On error the old file stays and no temporary
// remains. A symbolic link of that name is replaced, never followed. Errors, with `shown` as the name: denied,
// no_capacity, failed.
[[nodiscard]] Result<void> replace_file(int at, const std::string& path, std::string_view content, mode_t mode,
                                        const std::string& shown);

}  // namespace headgate::cli
