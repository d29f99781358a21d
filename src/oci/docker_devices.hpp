// Docker's device requests applied to a container's config.json, as dockerd's own drivers do it: which drivers there
// are by the programs on PATH, which one a request selects, and the two roads of NVIDIA's, CDI devices and the prestart
// hook. Pure: what dockerd would look at on the node is handed in. Unlike dockerd's, a road that fails leaves no edits
// behind, and the order of the roads is a setting.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_devices.hpp"
#include "oci/container_config.hpp"
#include "oci/cuda_requirement.hpp"
#include "oci/device_request.hpp"

namespace headgate::oci {

enum class FirstRoad { cdi, hook };

// What dockerd finds on the node.
struct DockerNode {
  bool cdi = true;                       // features.cdi, and at least one directory
  CdiDevices devices;                    // of those directories
  bool nvidia_cdi_hook = false;          // nvidia-cdi-hook is on PATH
  std::string nvidia_runtime_hook;       // nvidia-container-runtime-hook's path on PATH; empty: it is not there
  bool amd_runtime = false;              // amd-container-runtime is on PATH
  std::vector<std::string> environment;  // of dockerd, which its hook is given
  FirstRoad first = FirstRoad::cdi;
  GpuFacts gpus;
  FindHostNode find_node;
};

struct DeviceDriver {
  std::string name;                       // what a request's Driver names
  std::vector<std::string> capabilities;  // by which it is chosen; none: by name only
  friend bool operator==(const DeviceDriver&, const DeviceDriver&) = default;
};
// The drivers of the node, in the order in which a request without a name tries them.
[[nodiscard]] std::vector<DeviceDriver> device_drivers(const DockerNode& node);

struct EditedConfig {
  ContainerConfig config;
  std::vector<std::string> warnings;  // of roads that failed before one succeeded
};

// Applies the requests one after another. The CUDA that the image needs is checked where an NVIDIA driver is selected.
// Errors: usage for what is wrong with a request, not_found for devices, unsupported for the image's needs; several
// roads' errors are one, with "; " between.
[[nodiscard]] Result<EditedConfig> apply_requests(const ContainerConfig& config,
                                                  std::span<const DeviceRequest> requests, const DockerNode& node);

}  // namespace headgate::oci
