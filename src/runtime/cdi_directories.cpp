#include "runtime/cdi_directories.hpp"

#include <algorithm>
#include <filesystem>

#include "base/utf8.hpp"
#include "base/whole_file.hpp"
#include "oci/cdi_read.hpp"

namespace headgate::runtime {

namespace fs = std::filesystem;

Result<oci::Document> read_cdi_file(const std::string& path) {
  const WholeFile file = TRY(read_whole_file(path, oci::kMaxDocumentBytes));
  return oci::read_file_text(path, file.text);
}

Result<std::vector<oci::CdiFile>> read_cdi_directory(const std::string& path, std::size_t priority) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    if (oci::is_document_name(at->path().native())) paths.push_back(at->path().string());
  if (error) return fail_errno("cannot read the directory '" + printable(path) + "'", error.value());
  std::ranges::sort(paths);
  std::vector<oci::CdiFile> files;
  for (const std::string& each : paths)
    files.push_back({.path = each, .priority = priority, .document = read_cdi_file(each)});
  return files;
}

}  // namespace headgate::runtime
