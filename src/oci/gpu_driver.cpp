#include "oci/gpu_driver.hpp"

#include <algorithm>

namespace headgate::oci {
namespace {

// Drops repeats: a second GPU repeats most of the first one's edits.
void add_new(Edits& to, Edits more) {
  for (DeviceNode& node : more.device_nodes) node.major.reset(), node.minor.reset(), node.type.clear();
  add(to, more, Repeats::dropped);
}

}  // namespace

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
