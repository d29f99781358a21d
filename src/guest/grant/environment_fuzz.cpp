// Bytes as an environment: entries separated by NUL.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "guest/grant/environment.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::grant;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  std::vector<const char*> envp;
  for (std::size_t at = 0; at < size; at = bytes.find('\0', at) == std::string::npos ? size : bytes.find('\0', at) + 1)
    envp.push_back(bytes.data() + at);
  envp.push_back(nullptr);
  const std::string_view node[] = {"GPU-aaaa-0", "GPU-bbbb-1"};
  const Reading reading = read_environment(envp.data(), node);
  char line[128];
  if (describe(reading.refusal, line) >= sizeof line) std::abort();
  if (reading.refusal) return 0;
  for (const DeviceGrant& device : reading.grant.devices) {
    if (device.ceiling_ppm > kWholePpm || device.soft_ppm > kWholePpm || device.memory.ppm > kWholePpm) std::abort();
    if (device.memory.said() && !reading.grant.asks) std::abort();
  }
  if (!reading.grant.share.empty() && !is_share_name(reading.grant.share)) std::abort();
  return 0;
}
