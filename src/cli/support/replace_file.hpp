// A file that is whole at every moment: made beside its place, on disk, then put there.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::cli {

// `path` is relative to the directory `at` (AT_FDCWD: the current one); `mode` whatever the umask. Who reads meanwhile
// has the old file or the new one, and who has the old one mapped keeps it; on an error the old one stays and nothing
// is left beside it. A symbolic link of that name is replaced, never followed. Errors, which call it `shown`: denied,
// no_capacity, failed.
[[nodiscard]] Result<void> replace_file(int at, const std::string& path, std::string_view content, mode_t mode,
                                        const std::string& shown);

}  // namespace headgate::cli
