// The limiter where containers find it: its libraries in a directory that is mounted into them, or in the root of an
// image, and the ld.so.preload that has glibc's loader put it into every program there, whatever its environment.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

struct LimiterPlace {
  std::string directory;    // of the libraries and, without a root, of ld.so.preload; in a root: as its programs see it
  std::string at;           // where containers see the directory; "" at the same path. Not with a root
  std::string root;         // of an image or a machine, whose etc/ld.so.preload is changed; "" none
  bool whole_host = false;  // the root may be this machine's own
};

struct LimiterFiles {
  std::vector<std::string> files;   // written, or taken away
  std::vector<std::string> mounts;  // FROM:TO:ro, for containers that shall be held; install alone, and not in a root
};

// Makes the directory, puts the libraries there, then names the limiter in ld.so.preload, where it stands once however
// often that is done. Each file is replaced in one step and only when the new one is whole; running programs keep the
// library that they have. Symbolic links inside a root are not followed: they would lead out of it. Errors: usage,
// unsupported (a root without glibc's loader), denied, no_capacity, failed; then ld.so.preload is as it was.
[[nodiscard]] Result<LimiterFiles> install_limiter(const LimiterPlace& place);
// Takes it out of ld.so.preload first, then the libraries away (not those of this command's own installation), then the
// directory where it is empty. What is not there is no error.
[[nodiscard]] Result<LimiterFiles> remove_limiter(const LimiterPlace& place);

// `headgate limiter install` and `remove`: the exit status.
[[nodiscard]] int limiter_command(const std::string& word, const LimiterPlace& place, const Voice& voice);

}  // namespace headgate::cli
