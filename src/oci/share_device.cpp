#include "oci/share_device.hpp"

#include <algorithm>

namespace headgate::oci {
namespace {

constexpr std::string_view kFilePrefix = "headgate.io-share_", kFileEnd = ".json";

// `noexec` even if nothing is executed there: in a user namespace a mount inherits this flag from the host, and a
// remount without it is refused.
Mount bind(std::string from, std::string_view to, std::vector<std::string> flags) {
  std::vector<std::string> options = {"bind", "nosuid", "nodev"};
  options.insert(options.end(), flags.begin(), flags.end());
  return {
      .host_path = std::move(from), .container_path = std::string(to), .type = "bind", .options = std::move(options)};
}

bool sets_memory_limits(const Hook& hook) {
  return std::ranges::find(hook.args, "apply-cuda-memory-limits") != hook.args.end();
}

}  // namespace

std::string share_device_name(std::string_view share) { return std::string(kShareKind) + "=" + std::string(share); }

std::string share_file_name(std::string_view share) {
  return std::string(kFilePrefix) + std::string(share) + std::string(kFileEnd);
}

std::optional<std::string> share_of_file_name(std::string_view file) {
  if (!file.starts_with(kFilePrefix) || !file.ends_with(kFileEnd)) return std::nullopt;
  if (file.size() <= kFilePrefix.size() + kFileEnd.size()) return std::nullopt;
  return std::string(file.substr(kFilePrefix.size(), file.size() - kFilePrefix.size() - kFileEnd.size()));
}

std::string preload_list() { return std::string(kMountedLimiter) + "\n"; }

Edits simulated_driver(const std::string& libraries, const std::string& node) {
  Edits edits;
  for (const std::string_view place : kLibraryPlaces) {
    for (const char* file : {"/libcuda.so.1", "/libnvidia-ml.so.1"})
      edits.mounts.push_back(bind(libraries + file, std::string(place) + file, {"ro"}));
  }
  edits.mounts.push_back(bind(node, kMountedSimulatedNode, {"noexec", "rw"}));
  return edits;
}

Document share_document(const ShareDevice& device) {
  Edits edits = device.driver;
  // NVIDIA's runtime then adds no GPU, whatever the image requests.
  std::erase_if(edits.env, [](const std::string& each) { return each.starts_with("NVIDIA_VISIBLE_DEVICES="); });
  edits.env.emplace_back("NVIDIA_VISIBLE_DEVICES=void");
  if (device.memory_mib && std::ranges::any_of(edits.hooks, sets_memory_limits)) {
    for (const char* name : {"NVIDIA_GPU_MEMORY_REQUEST=", "NVIDIA_GPU_MEMORY_LIMIT="})
      edits.env.push_back(name + std::to_string(*device.memory_mib));
  }
  std::vector<Mount> ours = {bind(device.directory, kMountedShare, {"noexec", "ro"}),
                             bind(device.limiter, kMountedLimiter, {"ro"}),
                             bind(device.preload_list, "/etc/ld.so.preload", {"noexec", "ro"})};
  if (device.mps) {
    const std::string& pipe = device.mps->pipe_directory;
    ours.push_back(bind(pipe, pipe, {"noexec", "rw"}));
    ours.push_back(bind("/dev/shm", "/dev/shm", {"noexec", "rw"}));
    edits.env.insert(edits.env.end(), device.mps->env.begin(), device.mps->env.end());
  }
  for (const Mount& mount : ours) {
    std::erase_if(edits.mounts, [&](const Mount& each) { return each.container_path == mount.container_path; });
    edits.mounts.push_back(mount);
  }
  Document document{
      .version = {}, .kind = std::string(kShareKind), .devices = {{.name = device.share, .edits = std::move(edits)}}};
  document.version = minimum_version(document);
  return document;
}

std::string share_directory_of(const Document& document) {
  if (document.kind != kShareKind || document.devices.size() != 1) return {};
  const auto& mounts = document.devices.front().edits.mounts;
  const auto found = std::ranges::find(mounts, kMountedShare, &Mount::container_path);
  return found == mounts.end() ? std::string() : found->host_path;
}

}  // namespace headgate::oci
