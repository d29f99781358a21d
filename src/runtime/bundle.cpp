#include "runtime/bundle.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/utf8.hpp"
#include "base/whole_file.hpp"

namespace headgate::runtime {
namespace {

constexpr std::size_t kMaxConfigBytes = 4 << 20;
constexpr const char* kConfig = "config.json";

}  // namespace

Result<Bundle> Bundle::open(const std::string& path) {
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return fail_errno("cannot open the bundle '" + printable(path) + "'", errno);
  std::error_code error;
  const auto absolute = std::filesystem::canonical(path, error);
  if (error) return fail_errno("cannot find the bundle '" + printable(path) + "'", error.value());
  return Bundle(std::move(directory), absolute.string());
}

Result<oci::ContainerConfig> Bundle::config() const {
  const auto file = read_whole_file(path_ + "/" + kConfig, kMaxConfigBytes);
  if (!file) return fail(file.error().code, "config.json: " + file.error().message);
  return oci::ContainerConfig::read(file->text);
}

// Not synced, because a container does not survive a crash of the node.
Result<void> Bundle::replace(const std::string& name, std::string_view text, const struct stat& like) const {
  const std::string next = "." + name + ".headgate";
  ::unlinkat(directory_.get(), next.c_str(), 0);
  int error = 0;
  {
    const UniqueFd file(
        ::openat(directory_.get(), next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return fail_errno("cannot write in the bundle '" + printable(path_) + "'", errno);
    error = write_all(file.get(), text);
    const bool own = like.st_uid == ::geteuid() && like.st_gid == ::getegid();
    if (error == 0 && ((!own && ::fchown(file.get(), like.st_uid, like.st_gid) != 0) ||
                       ::fchmod(file.get(), like.st_mode & 07777) != 0))
      error = errno;
  }
  if (error == 0 && ::renameat(directory_.get(), next.c_str(), directory_.get(), name.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlinkat(directory_.get(), next.c_str(), 0);
  return fail_errno("cannot write " + name + " of the bundle '" + printable(path_) + "'", error);
}

Result<void> Bundle::replace_config(const oci::ContainerConfig& config) const {
  struct stat facts{};
  if (::fstatat(directory_.get(), kConfig, &facts, 0) != 0) return fail_errno("cannot look at config.json", errno);
  return replace(kConfig, config.text(), facts);
}

Result<std::string> Bundle::put(const std::string& name, std::string_view text) const {
  struct stat like{};
  like.st_mode = 0644, like.st_uid = ::geteuid(), like.st_gid = ::getegid();
  TRY(replace(name, text, like));
  return path_ + "/" + name;
}

}  // namespace headgate::runtime
