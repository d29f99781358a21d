// GPU performance monitoring (Hopper and newer): metrics are computed from two samples.
#include "sim/nvml/handles.hpp"
#include "sim/nvml/library.hpp"

struct headgate::abi::nvmlGpmSample_st {
  bool taken = false;
  std::uint32_t device = 0;
  std::uint64_t at_ns = 0, busy_ns = 0, sm_ns = 0;
};

namespace headgate::sim::nvml {
namespace {

constexpr unsigned kGraphics = 1, kSm = 2;

Handles<nvmlGpmSample_st>& samples() {
  static auto& forever = *new Handles<nvmlGpmSample_st>;
  return forever;
}

std::uint64_t sm_ns(const DeviceView& view) {
  std::uint64_t sum = 0;
  for (const Account& account : view.state().accounts) {
    if (account.used != 0 && account.device == view.index()) sum += account.sm_ns_sms / view.profile().sm_count;
  }
  return sum;
}

double percent(std::uint64_t before, std::uint64_t after, std::uint64_t of) {
  return after <= before ? 0.0 : std::min(100.0, 100.0 * static_cast<double>(after - before) / static_cast<double>(of));
}

void measure(const nvmlGpmSample_st& first, const nvmlGpmSample_st& second, nvmlGpmMetric_t& metric) {
  metric.metricInfo = {};
  metric.nvmlReturn = NVML_SUCCESS;
  const std::uint64_t between_ns = second.at_ns - first.at_ns;
  if (metric.metricId == kGraphics) metric.value = percent(first.busy_ns, second.busy_ns, between_ns);
  else if (metric.metricId == kSm) metric.value = percent(first.sm_ns, second.sm_ns, between_ns);
  else metric.nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t* gpmSupport) {
  return on_device({device, {gpmSupport}}, [&](const DeviceView& view) {
    if (gpmSupport->version != 1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    gpmSupport->isSupportedDevice = is_hopper_or_newer(view.profile()) ? 1 : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t* gpmSample) {
  return answer([&](Node&) { return samples().make(gpmSample); });
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t gpmSample) {
  return answer([&](Node&) { return samples().end(gpmSample); });
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t gpmSample) {
  return on_device(device, [&](const DeviceView& view) {
    if (!samples().knows(gpmSample)) return NVML_ERROR_INVALID_ARGUMENT;
    if (!is_hopper_or_newer(view.profile())) return NVML_ERROR_NOT_SUPPORTED;
    *gpmSample = {.taken = true,
                  .device = view.index(),
                  .at_ns = view.state().now_ns,
                  .busy_ns = view.device().busy_ns,
                  .sm_ns = sm_ns(view)};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t* metricsGet) {
  return answer([&](Node&) {
    if (metricsGet == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (metricsGet->version != 1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const auto *first = metricsGet->sample1, *second = metricsGet->sample2;
    const bool usable = samples().knows(first) && samples().knows(second) && first->taken && second->taken &&
                        first->device == second->device && first->at_ns < second->at_ns &&
                        metricsGet->numMetrics <= NVML_GPM_METRIC_MAX;
    if (!usable) return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < metricsGet->numMetrics; ++i) measure(*first, *second, metricsGet->metrics[i]);
    return NVML_SUCCESS;
  });
}

}  // extern "C"
}  // namespace headgate::sim::nvml
