#include "oci/gpu_driver.hpp"

#include <algorithm>

namespace headgate::oci {
namespace {

// Those of a second GPU repeat most of the first one's.
template <typename Value>
void add_new(std::vector<Value>& to, const std::vector<Value>& more) {
  for (const Value& each : more)
    if (std::ranges::find(to, each) == to.end()) to.push_back(each);
}

void add_new(Edits& to, Edits more) {
  for (DeviceNode& node : more.device_nodes) node.major.reset(), node.minor.reset(), node.type.clear();
  add_new(to.env, more.env);
  add_new(to.device_nodes, more.device_nodes);
  add_new(to.net_devices, more.net_devices);
  add_new(to.hooks, more.hooks);
  add_new(to.mounts, more.mounts);
  if (more.intel_rdt) to.intel_rdt = more.intel_rdt;
  add_new(to.additional_gids, more.additional_gids);
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
