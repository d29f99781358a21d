#include "daemon/gpu_documents.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/whole_file.hpp"
#include "oci/cdi_read.hpp"
#include "oci/share_device.hpp"
#include "runtime/gpu_inventory_files.hpp"

namespace headgate::daemon {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::vector<GpuDocuments::File> GpuDocuments::files() const {
  std::vector<File> all;
  for (auto directory = directories_.rbegin(); directory != directories_.rend(); ++directory) {
    std::vector<File> here;
    std::error_code error;
    for (fs::directory_iterator at(*directory, error), end; !error && at != end; at.increment(error)) {
      const fs::path& path = at->path();
      if (!oci::is_document_name(path.native()) || oci::share_of_file_name(path.filename().string())) continue;
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
  std::string stamp = runtime::gpu_inventory_stamp(root_);
  const bool other_driver = stamp != stamp_;
  stamp_ = std::move(stamp);
  if (other_driver) inventory_ = runtime::read_gpu_inventory(root_);
  std::vector<File> now = files();
  if (now == seen_) return other_driver && found_.empty();
  seen_ = std::move(now);
  found_.clear();
  for (const File& file : seen_) {
    const auto read = read_whole_file(file.path, oci::kMaxDocumentBytes);
    auto document = read ? oci::read_file_text(file.path, read->text) : std::unexpected(read.error());
    // Only its name shows the kind of a file that cannot be read.
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
  if (const auto own = found_.empty() ? oci::inventory_document(inventory_) : std::nullopt)
    return oci::gpu_driver(*own, gpus);
  return fail(ErrorCode::not_found,
              problems.empty() ? "no CDI file of the kind nvidia.com/gpu tells how containers get the GPU" : problems,
              "make it: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml");
}

}  // namespace headgate::daemon
