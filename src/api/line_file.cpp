#include "api/line_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/unique_fd.hpp"
#include "base/whole_file.hpp"

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
  // O_NOFOLLOW: the directory may belong to another user.
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640));
  if (!file) return fail_errno(path_, errno);
  if (::fstat(file.get(), &facts) != 0) return fail_errno(path_, errno);
  const int error = write_all(file.get(), lines);
  if (error == 0) return {};
  // The caller writes these lines again, so a partial write must not remain.
  (void)!::ftruncate(file.get(), facts.st_size);
  return fail_errno(path_, error);
}

}  // namespace headgate::api
