#include "observe/pcie_traffic.hpp"

namespace headgate::observe {
namespace {

// nvmlPcieUtilCounter_t, as the GPU sees it.
constexpr unsigned kSent = 0, kReceived = 1;

std::optional<std::uint64_t> rate(const nvml::Library& nvml, abi::nvmlDevice_t device, unsigned direction) {
  constexpr std::uint64_t kUnit = 1024;  // nvml.h says KB/s: taken for KiB/s, not yet compared on a card
  unsigned value = 0;
  if (!nvml::call(nvml->nvmlDeviceGetPcieThroughput, device, direction, &value)) return std::nullopt;
  return value * kUnit;
}

}  // namespace

void PcieTraffic::measure(const nvml::Library& nvml, const std::vector<snapshot::Gpu>& gpus,
                          std::chrono::steady_clock::time_point now) {
  if (gpus.empty() || (measured_ && now - *measured_ < kBetweenTrafficReadings)) return;
  const snapshot::Gpu& gpu = gpus[next_++ % gpus.size()];
  abi::nvmlDevice_t device = nullptr;
  measured_ = now;
  Rates& rates = known_[gpu.uuid] = {};
  if (nvml->nvmlDeviceGetHandleByIndex_v2(gpu.index, &device) != abi::NVML_SUCCESS) return;
  rates = {.rx_bytes_per_second = rate(nvml, device, kReceived), .tx_bytes_per_second = rate(nvml, device, kSent)};
}

void PcieTraffic::fill(std::vector<snapshot::Gpu>& gpus) const {
  for (snapshot::Gpu& gpu : gpus) {
    const auto found = known_.find(gpu.uuid);
    if (found == known_.end()) continue;
    gpu.pcie_rx_bytes_per_second = found->second.rx_bytes_per_second;
    gpu.pcie_tx_bytes_per_second = found->second.tx_bytes_per_second;
  }
}

}  // namespace headgate::observe
