#include "observe/driver_samples.hpp"

#include <algorithm>
#include <utility>

namespace headgate::observe {
namespace {

// From NVML 12's nvml.h: the structs are versioned, and the last list is as long as its caller makes it.
constexpr unsigned kVersion = 1, kSmUtil = 2;  // NVML_GPM_METRICS_GET_VERSION, NVML_GPM_METRIC_SM_UTIL

struct Support {
  unsigned version, is_supported;
};
struct Metric {
  unsigned id;
  abi::nvmlReturn_t result;
  double value;  // percent
  char *short_name, *long_name, *unit;
};
struct MetricsGet {
  unsigned version, count;
  void *first, *second;
  Metric metrics[1];
};

// Returns whether the driver will give the same answer as long as it is loaded.
bool is_final(abi::nvmlReturn_t result) {
  return result == abi::NVML_ERROR_NOT_SUPPORTED || result == abi::NVML_ERROR_NO_PERMISSION ||
         result == abi::NVML_ERROR_FUNCTION_NOT_FOUND;
}

std::optional<double> between(const nvml::Library& nvml, void* first, void* second) {
  MetricsGet get{.version = kVersion, .count = 1, .first = first, .second = second, .metrics = {}};
  get.metrics[0].id = kSmUtil;
  const double percent =
      nvml::call(nvml->nvmlGpmMetricsGet, &get) && nvml::ok(get.metrics[0].result) ? get.metrics[0].value : -1;
  return percent >= 0 ? std::optional(std::min(percent, 100.0) / 100) : std::nullopt;  // neither where it is NaN
}

}  // namespace

void SmActivity::sample(const nvml::Library& nvml, unsigned index, Known& known,
                        std::chrono::steady_clock::time_point now) {
  known.asked = now;
  known.ratio.reset();
  abi::nvmlDevice_t device = nullptr;
  if (!nvml::call(nvml->nvmlDeviceGetHandleByIndex_v2, index, &device)) return;
  const auto done = [&](auto function, auto... arguments) {
    const auto result = function == nullptr ? abi::NVML_ERROR_FUNCTION_NOT_FOUND : function(arguments...);
    known.lacking = is_final(result);
    return nvml::ok(result);
  };
  if (!known.sampled) {
    Support support{.version = kVersion, .is_supported = 0};
    if (!done(nvml->nvmlGpmQueryDeviceSupport, device, &support)) return;
    known.lacking = support.is_supported == 0;
    if (known.lacking) return;
  }
  for (void** one : {&known.last, &known.spare}) {
    if (*one != nullptr || done(nvml->nvmlGpmSampleAlloc, one)) continue;
    *one = nullptr;
    return;
  }
  if (!done(nvml->nvmlGpmSampleGet, device, known.spare)) return;
  if (known.sampled) known.ratio = between(nvml, known.last, known.spare);
  std::swap(known.last, known.spare);
  known.sampled = true;
}

void SmActivity::measure(const nvml::Library& nvml, std::vector<snapshot::Gpu>& gpus,
                         std::chrono::steady_clock::time_point now) {
  for (snapshot::Gpu& gpu : gpus) {
    if (gpu.uuid.empty()) continue;
    Known& known = known_[gpu.uuid];
    if (!known.lacking && (!known.asked || now - *known.asked >= kBetweenSamples)) sample(nvml, gpu.index, known, now);
    if (!known.lacking) gpu.sm_active_ratio = known.ratio;
  }
}

void SmActivity::forget(const nvml::Library& nvml) {
  for (auto& [uuid, known] : known_) {
    for (void* const one : {known.last, known.spare})
      if (one != nullptr) (void)nvml::call(nvml->nvmlGpmSampleFree, one);
  }
  known_.clear();
}

namespace {

// nvmlPcieUtilCounter_t, as the GPU sees it.
constexpr unsigned kPcieSent = 0, kPcieReceived = 1;

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
  rates = {.rx_bytes_per_second = rate(nvml, device, kPcieReceived),
           .tx_bytes_per_second = rate(nvml, device, kPcieSent)};
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
