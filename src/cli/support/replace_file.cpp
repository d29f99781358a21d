#include "cli/support/replace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>

#include "base/unique_fd.hpp"
#include "base/write_all.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

Result<void> replace_file(int at, const std::string& path, std::string_view content, mode_t mode,
                          const std::string& shown) {
  // A name of its own: another of us may be at the same work.
  const std::string next = path + ".new-" + std::to_string(std::random_device{}());
  const UniqueFd file(::openat(at, next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file) return fail_errno("cannot make '" + harmless(shown) + "'", errno, "name a directory where you may write");
  int error = write_all(file.get(), content);
  if (error == 0 && (::fchmod(file.get(), mode) != 0 || ::fsync(file.get()) != 0)) error = errno;
  if (error != 0) {
    ::unlinkat(at, next.c_str(), 0);
    return fail_errno("cannot write '" + harmless(shown) + "'", error, "name a directory on a disk with more room");
  }
  if (::renameat(at, next.c_str(), at, path.c_str()) == 0) return {};
  error = errno;
  ::unlinkat(at, next.c_str(), 0);
  return fail_errno("cannot replace '" + harmless(shown) + "'", error, "move it away");
}

}  // namespace headgate::cli
