#include "cli/support/support_bundle.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/unique_fd.hpp"
#include "base/whole_file.hpp"
#include "cli/run/launch.hpp"
#include "cli/term/output.hpp"
#include "install/paths.hpp"
#include "load/child.hpp"

namespace headgate::cli {
namespace {

// Temporary files for the archive; removed with this object.
class Folder {
 public:
  Folder() {
    const std::string given = install::environment("TMPDIR");
    path_ = (given.empty() ? "/tmp" : given) + "/headgate-bundle-XXXXXX";
    made_ = ::mkdtemp(path_.data()) != nullptr;  // 0700
    error_ = made_ ? 0 : errno;
  }
  ~Folder() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int error() const { return error_; }

 private:
  std::string path_;
  bool made_ = false;
  int error_ = 0;
};

// With SIGXFSZ ignored, exceeding the file size limit is an error of write() instead of killing us.
class NoSizeSignal {
 public:
  NoSizeSignal() : former_(std::signal(SIGXFSZ, SIG_IGN)) {}
  ~NoSizeSignal() { std::signal(SIGXFSZ, former_); }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  void (*former_)(int);
};

Result<void> write_new(const std::string& path, std::string_view content) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file && errno == EEXIST)
    return fail(ErrorCode::usage, "'" + harmless(path) + "' exists already",
                "name a file that does not, or move it away");
  if (!file) return fail_errno("cannot make '" + harmless(path) + "'", errno, "name a file where you may write");
  const int error = write_all(file.get(), content);
  if (error == 0) return {};
  ::unlink(path.c_str());
  return fail_errno("cannot write '" + harmless(path) + "'", error, "name a file on a disk with more room");
}

}  // namespace

Result<void> may_write_archive(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
    return fail(ErrorCode::usage, "'" + harmless(path) + "' exists already",
                "name a file that does not, or move it away");
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (::access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) != 0)
    return fail_errno("cannot make '" + harmless(path) + "'", errno, "name a file where you may write");
  for (const char* tool : {"tar", "gzip"})
    if (!find_program(tool))
      return fail(ErrorCode::unsupported, "'" + std::string(tool) + "' is not installed", "apt install tar gzip");
  return {};
}

Result<void> write_archive(const std::string& path, const std::string& folder, const std::vector<ArchiveFile>& files) {
  TRY(may_write_archive(path));
  const NoSizeSignal quiet;
  const Folder temporary;
  if (temporary.error() != 0)
    return fail_errno("cannot make '" + temporary.path() + "'", temporary.error(), "set TMPDIR to where you may write");
  const std::string inner = temporary.path() + "/" + folder;
  if (::mkdir(inner.c_str(), 0700) != 0) return fail_errno("cannot make '" + inner + "'", errno);
  std::vector<std::string> argv = {"tar", "-C",  temporary.path(), "--owner=0", "--group=0", "--numeric-owner", "-czf",
                                   "-",   folder};
  for (const ArchiveFile& file : files) TRY(write_new(inner + "/" + file.name, file.content));
  const auto packed = TRY(load::run_child({.argv = argv, .ends_with_us = true}, std::chrono::minutes(1)));
  return write_new(path, packed.out);
}

}  // namespace headgate::cli
