#include "observe/sm_activity.hpp"

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

bool has_monitoring(const nvml::Library& nvml) {
  return nvml->nvmlGpmQueryDeviceSupport != nullptr && nvml->nvmlGpmSampleAlloc != nullptr &&
         nvml->nvmlGpmSampleGet != nullptr && nvml->nvmlGpmMetricsGet != nullptr && nvml->nvmlGpmSampleFree != nullptr;
}

// Returns whether the driver will give the same answer as long as it is loaded.
bool is_final(abi::nvmlReturn_t result) {
  return result == abi::NVML_ERROR_NOT_SUPPORTED || result == abi::NVML_ERROR_NO_PERMISSION ||
         result == abi::NVML_ERROR_FUNCTION_NOT_FOUND;
}

std::optional<double> between(const nvml::Library& nvml, void* first, void* second) {
  MetricsGet get{.version = kVersion, .count = 1, .first = first, .second = second, .metrics = {}};
  get.metrics[0].id = kSmUtil;
  if (nvml->nvmlGpmMetricsGet(&get) != abi::NVML_SUCCESS || get.metrics[0].result != abi::NVML_SUCCESS)
    return std::nullopt;
  const double percent = get.metrics[0].value;
  if (!(percent >= 0)) return std::nullopt;  // also refuses NaN
  return std::min(percent, 100.0) / 100;
}

}  // namespace

void SmActivity::sample(const nvml::Library& nvml, unsigned index, Known& known,
                        std::chrono::steady_clock::time_point now) {
  known.asked = now;
  known.ratio.reset();
  known.lacking = !has_monitoring(nvml);
  abi::nvmlDevice_t device = nullptr;
  if (known.lacking || nvml->nvmlDeviceGetHandleByIndex_v2(index, &device) != abi::NVML_SUCCESS) return;
  const auto done = [&](abi::nvmlReturn_t result) {
    known.lacking = is_final(result);
    return result == abi::NVML_SUCCESS;
  };
  if (!known.sampled) {
    Support support{.version = kVersion, .is_supported = 0};
    if (!done(nvml->nvmlGpmQueryDeviceSupport(device, &support))) return;
    known.lacking = support.is_supported == 0;
    if (known.lacking) return;
  }
  for (void** one : {&known.last, &known.spare}) {
    if (*one != nullptr || done(nvml->nvmlGpmSampleAlloc(one))) continue;
    *one = nullptr;
    return;
  }
  if (!done(nvml->nvmlGpmSampleGet(device, known.spare))) return;
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
    for (void* const one : {known.last, known.spare}) {
      if (one != nullptr) nvml->nvmlGpmSampleFree(one);
    }
  }
  known_.clear();
}

}  // namespace headgate::observe
