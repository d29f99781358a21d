#include "power/lease_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/unique_fd.hpp"
#include "base/write_all.hpp"

namespace headgate::power {
namespace {

constexpr std::size_t kMaxBytes = 16 << 20;

Result<void> write_whole(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail_errno("making " + path, errno);
  if (const int error = write_all(fd.get(), text); error != 0) return fail_errno("writing " + path, error);
  if (::fsync(fd.get()) != 0) return fail_errno("writing " + path, errno);
  return {};
}

}  // namespace

Result<std::vector<Lease>> load_leases(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT) return std::vector<Lease>{};
    return fail_errno("reading " + path, errno);
  }
  std::string text;
  std::array<char, 8192> bytes;
  for (;;) {
    const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
    if (count < 0) return fail_errno("reading " + path, errno);
    if (count == 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(count));
    if (text.size() > kMaxBytes) return fail(ErrorCode::failed, path + " is longer than 16 MiB");
  }
  return parse_leases(text);
}

Result<void> save_leases(const std::string& path, const std::vector<Lease>& leases) {
  const std::string fresh = path + ".new";
  if (auto written = write_whole(fresh, leases_json(leases)); !written) {
    ::unlink(fresh.c_str());
    return written;
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) return fail_errno("replacing " + path, errno);
  const UniqueFd folder(::open(path.substr(0, path.rfind('/') + 1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) return fail_errno("writing the directory of " + path, errno);
  return {};
}

}  // namespace headgate::power
