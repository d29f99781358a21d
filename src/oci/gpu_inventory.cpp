#include "oci/gpu_inventory.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "oci/share_device.hpp"

namespace headgate::oci {
namespace {

constexpr std::array<std::string_view, 14> kNeeded = {
    "libcuda",          "libcudadebugger",       "libnvidia-ml",     "libnvidia-ptxjitcompiler", "libnvidia-nvvm",
    "libnvidia-cfg",    "libnvidia-gpucomp",     "libnvidia-opencl", "libnvidia-allocator",      "libnvcuvid",
    "libnvidia-encode", "libnvidia-opticalflow", "libnvidia-pkcs11", "libnvidia-pkcs11-openssl3"};

// Returns the value in a line such as "GPU UUID:        GPU-1234".
std::string_view value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(key)) continue;
    const std::string_view value = line.substr(key.size());
    const auto begin = value.find_first_not_of(" \t"), end = value.find_last_not_of(" \t\r");
    return begin == std::string_view::npos ? std::string_view() : value.substr(begin, end - begin + 1);
  }
  return {};
}

Mount read_only(const std::string& from, const std::string& to) {
  return {.host_path = from, .container_path = to, .options = {"ro", "nosuid", "nodev", "rbind", "rprivate"}};
}

DeviceNode node_of(const InventoryGpu& gpu) { return {.path = "/dev/nvidia" + std::to_string(gpu.minor)}; }

// Drops repeats: a second GPU repeats most of the first one's edits.
void add_new(Edits& to, Edits more) {
  for (DeviceNode& node : more.device_nodes) node.major.reset(), node.minor.reset(), node.type.clear();
  add(to, more, Repeats::dropped);
}

}  // namespace

std::optional<InventoryGpu> gpu_of_information(std::string_view text) {
  InventoryGpu gpu;
  gpu.uuid = value_of(text, "GPU UUID:");
  const std::string_view number = value_of(text, "Device Minor:");
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), gpu.minor);
  if (!gpu.uuid.starts_with("GPU-") || error != std::errc() || end != number.data() + number.size())
    return std::nullopt;
  return gpu;
}

bool is_needed_library(std::string_view file, std::string_view version) {
  const auto at = file.find(".so.");
  return at != std::string_view::npos && !version.empty() && file.substr(at + 4) == version &&
         std::ranges::find(kNeeded, file.substr(0, at)) != kNeeded.end();
}

std::optional<Document> inventory_document(const GpuInventory& inventory) {
  const bool has_cuda = std::ranges::any_of(inventory.files, [](const DriverFile& file) {
    return std::ranges::find(file.names, "libcuda.so.1") != file.names.end();
  });
  if (inventory.gpus.empty() || !has_cuda) return std::nullopt;
  Document document{.kind = std::string(kGpuKind)};
  document.edits.env = {"NVIDIA_VISIBLE_DEVICES=void"};
  for (const std::string& path : inventory.control_nodes) document.edits.device_nodes.push_back({.path = path});
  for (const DriverFile& file : inventory.files) {
    if (file.names.empty()) document.edits.mounts.push_back(read_only(file.host_path, file.host_path));
    // Without NVIDIA's hooks, no symbolic links are made and the loader's cache is not refreshed, so each name is
    // mounted in every default library directory.
    for (const std::string& name : file.names)
      for (const std::string_view place : kLibraryPlaces)
        document.edits.mounts.push_back(read_only(file.host_path, std::string(place) + "/" + name));
  }
  Edits all;
  for (std::size_t i = 0; i < inventory.gpus.size(); ++i) {
    const InventoryGpu& gpu = inventory.gpus[i];
    all.device_nodes.push_back(node_of(gpu));
    Edits one;
    one.device_nodes = {node_of(gpu)};
    document.devices.push_back({.name = std::to_string(i), .edits = one});
    document.devices.push_back({.name = gpu.uuid, .edits = one});
  }
  document.devices.push_back({.name = "all", .edits = std::move(all)});
  document.version = minimum_version(document);
  return document;
}

Result<Edits> gpu_driver(const Document& document, std::span<const GpuRef> gpus) {
  Edits edits;
  add_new(edits, document.edits);
  for (const GpuRef& gpu : gpus) {
    auto device = std::ranges::find(document.devices, gpu.uuid, &Device::name);
    if (device == document.devices.end())
      device = std::ranges::find(document.devices, std::to_string(gpu.index), &Device::name);
    if (device == document.devices.end())
      return fail(ErrorCode::not_found, "it has no device for GPU " + std::to_string(gpu.index) + " (" + gpu.uuid + ")",
                  "make it again: nvidia-ctk cdi generate");
    add_new(edits, device->edits);
  }
  return edits;
}

}  // namespace headgate::oci
