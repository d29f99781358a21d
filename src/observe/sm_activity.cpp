#include "observe/sm_activity.hpp"

#include <algorithm>
#include <utility>

namespace headgate::observe {
namespace {

// Facts from NVML 12's nvml.h: the structs are versioned, the last list is as long as its caller makes it.
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

bool has_monitoring(const nvml::Library& nvml, abi::nvmlDevice_t device) {
  if (nvml->nvmlGpmQueryDeviceSupport == nullptr || nvml->nvmlGpmSampleAlloc == nullptr ||
      nvml->nvmlGpmSampleGet == nullptr || nvml->nvmlGpmMetricsGet == nullptr || nvml->nvmlGpmSampleFree == nullptr)
    return false;
  Support support{.version = kVersion, .is_supported = 0};
  return nvml->nvmlGpmQueryDeviceSupport(device, &support) == abi::NVML_SUCCESS && support.is_supported != 0;
}

std::optional<double> between(const nvml::Library& nvml, void* first, void* second) {
  MetricsGet get{.version = kVersion, .count = 1, .first = first, .second = second, .metrics = {}};
  get.metrics[0].id = kSmUtil;
  if (nvml->nvmlGpmMetricsGet(&get) != abi::NVML_SUCCESS || get.metrics[0].result != abi::NVML_SUCCESS)
    return std::nullopt;
  const double percent = get.metrics[0].value;
  if (!(percent >= 0)) return std::nullopt;  // nor what is no number
  return std::min(percent, 100.0) / 100;
}

}  // namespace

void SmActivity::sample(const nvml::Library& nvml, unsigned index, Known& known,
                        std::chrono::steady_clock::time_point now) {
  abi::nvmlDevice_t device = nullptr;
  const bool first = known.last == nullptr;
  known.lacking = nvml->nvmlDeviceGetHandleByIndex_v2(index, &device) != abi::NVML_SUCCESS ||
                  (first && !has_monitoring(nvml, device));
  if (known.lacking) return;
  for (void** one : {&known.last, &known.spare}) {
    if (*one == nullptr && nvml->nvmlGpmSampleAlloc(one) != abi::NVML_SUCCESS) *one = nullptr, known.lacking = true;
  }
  if (known.lacking) return;
  void* const into = first ? known.last : known.spare;
  known.lacking = nvml->nvmlGpmSampleGet(device, into) != abi::NVML_SUCCESS;
  known.ratio = first || known.lacking || !known.taken ? std::nullopt : between(nvml, known.last, into);
  known.taken = now;
  if (!first) std::swap(known.last, known.spare);
}

void SmActivity::measure(const nvml::Library& nvml, std::vector<snapshot::Gpu>& gpus,
                         std::chrono::steady_clock::time_point now) {
  for (snapshot::Gpu& gpu : gpus) {
    if (gpu.uuid.empty()) continue;
    Known& known = known_[gpu.uuid];
    if (!known.lacking && (!known.taken || now - *known.taken >= kBetweenSamples)) sample(nvml, gpu.index, known, now);
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
