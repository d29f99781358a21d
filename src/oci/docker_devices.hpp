// Applies Docker's device requests to a container's config.json like dockerd's drivers: which drivers exist by the
// programs on PATH, which one a request selects, and NVIDIA's two methods, CDI devices and the prestart hook. Pure:
// facts about the node are passed in. Unlike in dockerd, a failed method leaves no edits, and the order of the methods
// is configurable.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_cache.hpp"
#include "oci/container_config.hpp"
#include "oci/cuda_requirement.hpp"
#include "oci/device_request.hpp"

namespace headgate::oci {

enum class FirstRoad { cdi, hook };

// What dockerd finds on the node.
struct DockerNode {
  bool cdi = true;                       // features.cdi is on and there is a directory
  CdiDevices devices;                    // from those directories
  bool nvidia_cdi_hook = false;          // nvidia-cdi-hook is on PATH
  std::string nvidia_runtime_hook;       // path of nvidia-container-runtime-hook on PATH; empty if missing
  bool amd_runtime = false;              // amd-container-runtime is on PATH
  std::vector<std::string> environment;  // dockerd's, passed to its hook
  FirstRoad first = FirstRoad::cdi;
  GpuFacts gpus;
  FindHostNode find_node;
};

struct DeviceDriver {
  std::string name;                       // matched by a request's Driver
  std::vector<std::string> capabilities;  // that select it; empty: by name only
  friend bool operator==(const DeviceDriver&, const DeviceDriver&) = default;
};
// Returns the node's drivers in the order in which a request without a name tries them.
[[nodiscard]] std::vector<DeviceDriver> device_drivers(const DockerNode& node);

struct EditedConfig {
  ContainerConfig config;
  std::vector<std::string> warnings;  // of methods that failed before one succeeded
};

// Applies the requests in order. Checks the CUDA version that the image needs if an NVIDIA driver is selected. Errors:
// usage for an invalid request, not_found for devices, unsupported for the image's needs; errors of several methods are
// joined with "; ".
[[nodiscard]] Result<EditedConfig> apply_requests(const ContainerConfig& config,
                                                  std::span<const DeviceRequest> requests, const DockerNode& node);

}  // namespace headgate::oci
