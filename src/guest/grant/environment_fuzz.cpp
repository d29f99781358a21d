// The input is an environment: entries separated by NUL.
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
    for (const std::uint64_t card_bytes : {std::uint64_t{1}, std::uint64_t{16} << 30, ~std::uint64_t{0}}) {
      const Refusal refusal = check_memory(device, card_bytes);
      if (describe(refusal, line) >= sizeof line) std::abort();
      if (refusal || !device.memory.said()) continue;
      if (device.oversubscribe_ppm == 0 && device.memory.on(card_bytes) > card_bytes) std::abort();
      if (split_memory(device, card_bytes).card_bytes > card_bytes) std::abort();
    }
  }
  if (!reading.grant.share.empty() && !is_share_name(reading.grant.share)) std::abort();
  return 0;
}
