#include "runtime/node_facts.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <ranges>
#include <sstream>

#include "base/utf8.hpp"
#include "base/whole_file.hpp"
#include "oci/cdi_read.hpp"
#include "oci/share_device.hpp"

namespace headgate::runtime {
namespace {

namespace fs = std::filesystem;

std::string proc_text(const std::string& path) {
  const auto file = read_whole_file(path, 64 << 10);
  return file ? file->text : std::string();
}

std::vector<fs::path> entries_of(const std::string& directory) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    all.push_back(at->path());
  std::ranges::sort(all);
  return all;
}

// Returns the driver's libraries by resolved file, with their names. Links are resolved on the host, also below `root`.
std::map<std::string, std::vector<std::string>> libraries_of(const std::string& root, const std::string& version) {
  std::map<std::string, std::vector<std::string>> found;
  std::vector<std::string> directories(oci::kLibraryPlaces.begin(), oci::kLibraryPlaces.end());
  for (const std::string_view place : oci::kLibraryPlaces)
    directories.push_back(std::string(place) + "/nvidia/current");
  directories.emplace_back("/usr/lib");
  const fs::path base = root.empty() ? fs::path("/") : fs::canonical(root);
  for (const std::string& directory : directories) {
    for (const fs::path& path : entries_of(root + directory)) {
      const std::string name = path.filename().string();
      // Names without a version number are for linkers.
      const bool is_nvidias = name.starts_with("libcuda") || name.starts_with("libnv");
      if (!is_nvidias || !name.contains(".so.")) continue;
      std::error_code error;
      const fs::path real = fs::canonical(path, error);
      if (error || !oci::is_needed_library(real.filename().native(), version)) continue;
      const fs::path seen = "/" / real.lexically_relative(base);
      auto& names = found[seen.string()];
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return found;
}

std::vector<std::string> control_nodes_of(const std::string& root) {
  std::vector<std::string> nodes;
  std::error_code ignored;
  for (const char* node : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"})
    if (fs::exists(root + node, ignored)) nodes.emplace_back(node);
  return nodes;
}

}  // namespace

std::string program_on_path(const std::string& name, bool but_this) {
  struct stat ours{};
  if (but_this && ::stat("/proc/self/exe", &ours) != 0) return {};
  const char* const path = std::getenv("PATH");
  for (const auto folder : std::views::split(std::string_view(path == nullptr ? "" : path), ':')) {
    const std::string file = std::string(folder.begin(), folder.end()) + "/" + name;
    struct stat facts{};
    if (file.starts_with('/') && ::stat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
        ::access(file.c_str(), X_OK) == 0 && !(but_this && facts.st_dev == ours.st_dev && facts.st_ino == ours.st_ino))
      return file;
  }
  return {};
}

Result<oci::HostNode> host_node(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) return fail_errno("the device node " + printable(path), errno);
  const char type = S_ISCHR(facts.st_mode) ? 'c' : S_ISBLK(facts.st_mode) ? 'b' : S_ISFIFO(facts.st_mode) ? 'p' : '\0';
  if (type == '\0') return fail(ErrorCode::usage, printable(path) + " is no device node");
  return oci::HostNode{.type = type,
                       .major = static_cast<std::int64_t>(major(facts.st_rdev)),
                       .minor = static_cast<std::int64_t>(minor(facts.st_rdev)),
                       .mode = facts.st_mode & 07777u};
}

std::string driver_version(std::string_view text) {
  std::istringstream words{std::string(text.substr(0, text.find('\n')))};
  for (std::string word; words >> word;)
    if (word.contains('.') && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return {};
}

oci::DockerNode this_node() {
  oci::DockerNode node;
  node.nvidia_cdi_hook = !program_on_path("nvidia-cdi-hook").empty();
  node.nvidia_runtime_hook = program_on_path("nvidia-container-runtime-hook");
  node.amd_runtime = !program_on_path("amd-container-runtime").empty();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) node.environment.emplace_back(*entry);
  if (const auto version = read_whole_file("/proc/driver/nvidia/version", 4096))
    node.gpus.driver = driver_version(version->text);
  node.gpus.cuda = oci::cuda_of_driver(node.gpus.driver);
  node.find_node = host_node;
  return node;
}

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

std::string gpu_inventory_stamp(const std::string& root) {
  std::string stamp = proc_text(root + "/proc/driver/nvidia/version");
  if (stamp.empty()) return stamp;
  for (const fs::path& gpu : entries_of(root + "/proc/driver/nvidia/gpus")) stamp += gpu.filename().string() + "\n";
  for (const std::string& node : control_nodes_of(root)) stamp += node + "\n";
  return stamp;
}

oci::GpuInventory read_gpu_inventory(const std::string& root) {
  oci::GpuInventory inventory;
  const std::string driver = root + "/proc/driver/nvidia";
  const std::string version = driver_version(proc_text(driver + "/version"));
  if (version.empty()) return inventory;
  for (const fs::path& gpu : entries_of(driver + "/gpus"))
    if (const auto found = oci::gpu_of_information(proc_text((gpu / "information").string())))
      inventory.gpus.push_back(*found);
  inventory.control_nodes = control_nodes_of(root);
  for (auto& [path, names] : libraries_of(root, version))
    inventory.files.push_back({.host_path = path, .names = std::move(names)});
  std::error_code ignored;
  for (const char* program :
       {"/usr/bin/nvidia-smi", "/usr/bin/nvidia-cuda-mps-control", "/usr/bin/nvidia-cuda-mps-server"})
    if (fs::exists(root + program, ignored)) inventory.files.push_back({.host_path = program, .names = {}});
  return inventory;
}

}  // namespace headgate::runtime
