// Installs the limiter for containers, in a directory that is mounted into them or in an image's root. An ld.so.preload
// makes glibc's loader load it into every program there, whatever the environment.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

struct LimiterPlace {
  std::string directory;    // of the libraries and, without a root, of ld.so.preload; in a root: the path inside it
  std::string at;           // the directory's path in containers; "" if the same. Not with a root
  std::string root;         // of an image or a machine: its etc/ld.so.preload is changed; "" for none
  bool whole_host = false;  // allow this machine's own root
};

struct LimiterFiles {
  std::vector<std::string> files;   // written or removed
  std::vector<std::string> mounts;  // FROM:TO:ro, for containers to be limited; only from install without a root
};

// Creates the directory, installs the libraries, then adds the limiter to ld.so.preload once. Each file is replaced
// atomically; running programs keep the library they have. Symbolic links inside a root are not followed, because they
// may lead out of it. Errors: usage, unsupported (a root without glibc's loader), denied, no_capacity, failed;
// ld.so.preload is then unchanged.
[[nodiscard]] Result<LimiterFiles> install_limiter(const LimiterPlace& place);
// Removes it from ld.so.preload first, then the libraries (not this installation's own), then the directory if empty.
// Missing parts are not an error.
[[nodiscard]] Result<LimiterFiles> remove_limiter(const LimiterPlace& place);

// `headgate limiter install` and `remove`: returns the exit status.
[[nodiscard]] int limiter_command(const std::string& word, const LimiterPlace& place, const Voice& voice);

}  // namespace headgate::cli
