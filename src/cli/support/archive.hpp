// Writes a gzipped tar of a few texts with the system's tar.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::cli {

struct ArchiveFile {
  std::string name;  // without directories
  std::string content;
};

// Checks in advance: the file must not exist, and the tools must be installed.
[[nodiscard]] Result<void> may_write_archive(const std::string& path);

// Writes `path` (0600), which must not exist, with `files` inside the folder `folder`. Removes it if it cannot be
// completed. Errors: usage (exists), denied, no_capacity (disk full), failed, unsupported (no tar or gzip).
[[nodiscard]] Result<void> write_archive(const std::string& path, const std::string& folder,
                                         const std::vector<ArchiveFile>& files);

}  // namespace headgate::cli
