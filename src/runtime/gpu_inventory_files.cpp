#include "runtime/gpu_inventory_files.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/whole_file.hpp"
#include "oci/share_device.hpp"
#include "runtime/node_facts.hpp"

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
