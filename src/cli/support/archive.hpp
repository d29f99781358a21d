// A gzipped tar of a few texts, made by the system's tar.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::cli {

struct ArchiveFile {
  std::string name;  // without a path
  std::string content;
};

// What can be told of it before there is anything to write: whether there is such a file, and the tools are here.
[[nodiscard]] Result<void> may_write_archive(const std::string& path);

// Writes `path` (0600), which must not exist; in it `files` lie in the folder `folder`. Nothing is left of it where it
// cannot be written whole. Errors: usage (it exists), denied, no_capacity (the disk is full), failed, unsupported (no
// tar or gzip here).
[[nodiscard]] Result<void> write_archive(const std::string& path, const std::string& folder,
                                         const std::vector<ArchiveFile>& files);

}  // namespace headgate::cli
