#include "api/line_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/unique_fd.hpp"

namespace headgate::api {

void LineFile::turn_over() {
  for (unsigned i = kept_; i > 1; --i)
    std::rename((path_ + "." + std::to_string(i - 1)).c_str(), (path_ + "." + std::to_string(i)).c_str());
  if (kept_ > 0) std::rename(path_.c_str(), (path_ + ".1").c_str());
  else ::unlink(path_.c_str());
}

Result<void> LineFile::add(const std::string& lines) {
  struct stat facts{};
  if (::stat(path_.c_str(), &facts) == 0 && facts.st_size > 0 &&
      static_cast<std::uint64_t>(facts.st_size) + lines.size() > most_bytes_)
    turn_over();
  // Not through a link: the directory may be another user's.
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640));
  if (!file) return fail_errno(path_, errno);
  if (::fstat(file.get(), &facts) != 0) return fail_errno(path_, errno);
  for (std::size_t done = 0; done < lines.size();) {
    const ssize_t written = ::write(file.get(), lines.data() + done, lines.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : ENOSPC;
      // The caller will write them again: half of them, and half a line, must not stay.
      if (done > 0) (void)!::ftruncate(file.get(), facts.st_size);
      return fail_errno(path_, error);
    }
    done += static_cast<std::size_t>(written);
  }
  return {};
}

}  // namespace headgate::api
