// Reads small files whole, and replaces them atomically; writes whole texts.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate {

struct WholeFile {
  std::string text;
  struct stat facts{};  // of the file that was read
};

// Errors: fail_errno() with `path` for opening and reading; usage if it is not a regular file; failed if it is longer
// than `most` bytes.
[[nodiscard]] Result<WholeFile> read_whole_file(const std::string& path, std::size_t most);

struct Replacement {
  mode_t mode = 0600;  // whatever the umask
  int at = AT_FDCWD;   // directory for a relative path
  // Path of the temporary file; empty: PATH.new, which supports one writer and replaces a leftover.
  std::string beside = {};
  std::string shown = {};  // the path in errors; empty: the real one
  bool durable = true;     // false: survives our being killed, but not necessarily a power failure
};

// Writes the text to a descriptor in as many writes as needed. Returns 0, or the errno of the failed write; earlier
// bytes have been written.
[[nodiscard]] int write_all(int fd, std::string_view text);

// Writes a temporary file and renames it over the old one; when it returns, file and directory entry are on disk. A
// symbolic link of that name is replaced, never followed. On error the old file stays and no temporary remains. Errors:
// fail_errno()'s.
[[nodiscard]] Result<void> replace_whole_file(const std::string& path, std::string_view text, const Replacement& how);

}  // namespace headgate
