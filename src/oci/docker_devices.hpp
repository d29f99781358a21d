// Docker's device requests (HostConfig.DeviceRequests of its API), from `--gpus` and `--device VENDOR/CLASS=NAME`.
// Source: https://docs.docker.com/reference/api/engine/ (DeviceRequest)
// Applies them to a container's config.json like dockerd's drivers: which drivers exist by the programs on PATH, which
// one a request selects, and NVIDIA's two methods, CDI devices and the prestart hook. Pure: facts about the node are
// passed in. Unlike in dockerd, a failed method leaves no edits, and the order of the methods is configurable.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_cache.hpp"
#include "oci/container_config.hpp"
#include "oci/cuda_requirement.hpp"

namespace headgate::oci {

struct DeviceRequest {
  std::string driver;      // empty: selected by capabilities
  std::int64_t count = 0;  // negative: all
  std::vector<std::string> ids;
  std::vector<std::vector<std::string>> capabilities;  // alternatives; all words of one list are required
  std::map<std::string, std::string> options;
  friend bool operator==(const DeviceRequest&, const DeviceRequest&) = default;
};

// More than any node has.
inline constexpr std::int64_t kMaxDeviceCount = 1024;

// Parses a list of requests. Errors: usage; the message starts with the place: "DeviceRequests[0].Count: ...".
[[nodiscard]] Result<std::vector<DeviceRequest>> read_device_requests(std::string_view json);

// Returns the requested devices: its IDs unchanged, 0 to Count - 1, "all", or none. Errors: usage if it has both.
[[nodiscard]] Result<std::vector<std::string>> requested_devices(const DeviceRequest& request);

// Returns the request's first list of capabilities that contains only words in `known`; null if there is none.
[[nodiscard]] const std::vector<std::string>* match_capabilities(const DeviceRequest& request,
                                                                 const std::vector<std::string>& known);

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
