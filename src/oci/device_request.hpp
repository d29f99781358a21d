// Docker's device requests (HostConfig.DeviceRequests of its API): what `--gpus` and `--device VENDOR/CLASS=NAME` mean.
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
  std::string driver;      // empty: chosen by capabilities
  std::int64_t count = 0;  // below 0: all
  std::vector<std::string> ids;
  std::vector<std::vector<std::string>> capabilities;  // one of these lists, with all of its words
  std::map<std::string, std::string> options;
  friend bool operator==(const DeviceRequest&, const DeviceRequest&) = default;
};

// No node has more GPUs.
inline constexpr std::int64_t kMaxDeviceCount = 1024;

// A list of requests. Errors: usage; the message begins with where it is: "DeviceRequests[0].Count: ...".
[[nodiscard]] Result<std::vector<DeviceRequest>> read_device_requests(std::string_view json);

// The devices that it names: its IDs as they are, 0 to Count - 1, "all", or none. Errors: usage if it has both.
[[nodiscard]] Result<std::vector<std::string>> requested_devices(const DeviceRequest& request);

// The selected one of the request's lists of capabilities: the first whose words are all in `known`. Null: no list is.
[[nodiscard]] const std::vector<std::string>* match_capabilities(const DeviceRequest& request,
                                                                 const std::vector<std::string>& known);

// What `docker run --gpus VALUE` asks for. Errors: usage, in Docker's words and how to quote.
[[nodiscard]] Result<DeviceRequest> read_gpus_option(std::string_view value);

}  // namespace headgate::oci
