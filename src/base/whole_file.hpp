// Small files as wholes: read at once, and replaced so that a reader has the old content or the new one, never a part.
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

// Errors: of opening and reading (fail_errno() with `path`), usage where it is no regular file, failed where it is
// longer than `most` bytes.
[[nodiscard]] Result<WholeFile> read_whole_file(const std::string& path, std::size_t most);

struct Replacement {
  mode_t mode = 0600;  // whatever the umask
  int at = AT_FDCWD;   // the directory to which the path is relative
  std::string beside =
      {};  // where it is made; empty: PATH.new, for one writer at a time: what a killed one left there is removed
  std::string shown = {};  // the path in errors; empty: as it is
  bool durable = true;     // false: it outlives a kill of ours, and need not outlive a power cut
};

// Makes the file beside its place and puts it there: on disk when it returns, with the directory's entry. A symbolic
// link of that name is replaced, never followed. On an error the old file stays and nothing is left beside it. Errors:
// of fail_errno().
[[nodiscard]] Result<void> replace_whole_file(const std::string& path, std::string_view text, const Replacement& how);

}  // namespace headgate
