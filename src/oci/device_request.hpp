// Docker's device requests (HostConfig.DeviceRequests of its API), from `--gpus` and `--device VENDOR/CLASS=NAME`.
// Source: https://docs.docker.com/reference/api/engine/ (DeviceRequest)
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

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

}  // namespace headgate::oci
