#include "daemon/gpu_documents.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/unique_fd.hpp"
#include "oci/cdi_read.hpp"
#include "oci/share_device.hpp"

namespace headgate::daemon {
namespace {

namespace fs = std::filesystem;

Result<std::string> text_of(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat facts{};
  if (!file || ::fstat(file.get(), &facts) != 0) return fail_errno("cannot read it", errno);
  if (!S_ISREG(facts.st_mode)) return fail(ErrorCode::usage, "is no file");
  std::string text(std::min<std::size_t>(static_cast<std::size_t>(facts.st_size), oci::kMaxDocumentBytes + 1), '\0');
  std::size_t size = 0;
  for (ssize_t got = 1; size < text.size() && got > 0; size += static_cast<std::size_t>(std::max<ssize_t>(got, 0)))
    got = ::read(file.get(), text.data() + size, text.size() - size);
  text.resize(size);
  return text;
}

}  // namespace

std::vector<GpuDocuments::File> GpuDocuments::files() const {
  std::vector<File> all;
  for (auto directory = directories_.rbegin(); directory != directories_.rend(); ++directory) {
    std::vector<File> here;
    std::error_code error;
    for (fs::directory_iterator at(*directory, error), end; !error && at != end; at.increment(error)) {
      const fs::path& path = at->path();
      if (path.extension() != ".json" || oci::share_of_file_name(path.filename().string())) continue;
      struct stat facts{};
      if (::stat(path.c_str(), &facts) != 0) continue;
      here.push_back({.path = path.string(),
                      .inode = facts.st_ino,
                      .changed_ns = facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec,
                      .size = facts.st_size});
    }
    std::ranges::sort(here, {}, &File::path);
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

bool GpuDocuments::look() {
  std::vector<File> now = files();
  if (now == seen_) return false;
  seen_ = std::move(now);
  found_.clear();
  for (const File& file : seen_) {
    const auto text = text_of(file.path);
    auto document = text ? oci::read_json(*text) : std::unexpected(text.error());
    // Of a file that cannot be read nothing tells its kind but its name.
    const bool is_of_gpus = document ? document->kind == oci::kGpuKind : file.path.contains("nvidia");
    if (is_of_gpus) found_.push_back({.path = file.path, .document = std::move(document)});
  }
  return true;
}

Result<oci::Edits> GpuDocuments::driver_of(std::span<const oci::GpuRef> gpus) const {
  std::string problems;
  for (const Found& each : found_) {
    auto edits = each.document ? oci::gpu_driver(*each.document, gpus) : std::unexpected(each.document.error());
    if (edits) return edits;
    problems += (problems.empty() ? "" : "; ") + each.path + ": " + edits.error().message;
  }
  return fail(ErrorCode::not_found,
              problems.empty() ? "no CDI file of the kind nvidia.com/gpu tells how containers get the GPU" : problems,
              "make it: nvidia-ctk cdi generate --format=json --output=/etc/cdi/nvidia.json");
}

}  // namespace headgate::daemon
