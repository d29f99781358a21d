#include "base/whole_file.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.hpp"

namespace headgate {
namespace {

Result<void> write_beside(const std::string& next, std::string_view text, const Replacement& how,
                          const std::string& shown) {
  const UniqueFd file(::openat(how.at, next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, how.mode));
  if (!file) return fail_errno("cannot make " + shown, errno, "its directory must be there and writable");
  int error = write_all(file.get(), text);
  if (error == 0 && (::fchmod(file.get(), how.mode) != 0 || (how.durable && ::fsync(file.get()) != 0))) error = errno;
  return error == 0 ? Result<void>{} : fail_errno("cannot write " + shown, error, "its disk needs more room");
}

}  // namespace

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

Result<WholeFile> read_whole_file(const std::string& path, std::size_t most) {
  // O_NONBLOCK: opening a pipe could block forever.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_errno("reading " + path, errno);
  WholeFile file;
  if (::fstat(fd.get(), &file.facts) != 0) return fail_errno("looking at " + path, errno);
  if (!S_ISREG(file.facts.st_mode)) return fail(ErrorCode::usage, path + " is no file");
  std::array<char, 8192> bytes;
  for (;;) {
    const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("reading " + path, errno);
    if (count == 0) return file;
    file.text.append(bytes.data(), static_cast<std::size_t>(count));
    if (file.text.size() > most)
      return fail(ErrorCode::failed, path + " is longer than " + std::to_string(most) + " bytes");
  }
}

Result<void> replace_whole_file(const std::string& path, std::string_view text, const Replacement& how) {
  const std::string next = how.beside.empty() ? path + ".new" : how.beside;
  const std::string shown = "'" + (how.shown.empty() ? path : how.shown) + "'";
  if (how.beside.empty()) ::unlinkat(how.at, next.c_str(), 0);
  Result<void> done = write_beside(next, text, how, shown);
  if (done && ::renameat(how.at, next.c_str(), how.at, path.c_str()) != 0)
    done = fail_errno("cannot replace " + shown, errno, "move away what is there");
  if (!done) {
    ::unlinkat(how.at, next.c_str(), 0);
    return done;
  }
  if (!how.durable) return {};
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const UniqueFd directory(::openat(how.at, folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(directory.get()) != 0) return fail_errno("cannot write the directory of " + shown, errno);
  return {};
}

}  // namespace headgate
