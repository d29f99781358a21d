// Readings that depend on load: utilisation, clocks, power, temperature. All derive from the last second of the node's
// busy history; the real counters are also about a second old.
#include <algorithm>
#include <utility>
#include <vector>

#include "guest/bare/clock.hpp"
#include "sim/engine/clocks.hpp"
#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {

// Between idle power and the limit, in proportion to the busy time.
std::uint64_t power_mw(const DeviceView& view) {
  const std::uint64_t idle_mw = view.profile().power_idle_mw;
  return idle_mw + (std::max<std::uint64_t>(view.power_limit_mw(), idle_mw) - idle_mw) * view.busy_percent() / 100;
}

unsigned temperature_c(const DeviceView& view) {
  const Profile& profile = view.profile();
  const std::uint64_t range_mw = std::max<std::uint64_t>(profile.power_max_mw - profile.power_idle_mw, 1);
  return static_cast<unsigned>(profile.temperature_idle_c + (profile.temperature_full_c - profile.temperature_idle_c) *
                                                                (power_mw(view) - profile.power_idle_mw) / range_mw);
}

// A busy GPU runs at its top clock, or less if an application clock or a locked range applies.
unsigned clock_mhz(const DeviceView& view, nvmlClockType_t type) {
  const Profile& profile = view.profile();
  const NvmlDevice& set = view.settings();
  const bool memory = type == NVML_CLOCK_MEM, busy = view.busy_percent() > 0;
  const unsigned idle = memory ? profile.memory_clock_idle_mhz : profile.sm_clock_idle_mhz;
  const unsigned top = memory ? profile.memory_clock_max_mhz : profile.sm_clock_max_mhz;
  if (busy && !memory) return busy_sm_clock_mhz(profile, set);
  const unsigned application = memory ? set.application_memory_mhz : set.application_sm_mhz;
  const unsigned least = memory ? set.memory_min_mhz : set.sm_min_mhz;
  const unsigned most = memory ? set.memory_max_mhz : set.sm_max_mhz;
  const unsigned wanted = !busy ? idle : application != 0 ? application : top;
  return most == 0 ? wanted : std::clamp(wanted, least, most);
}

// Since the machine's start, where node time begins.
unsigned long long energy_mj(const DeviceView& view) {
  return drawn_mj(view.profile(), view.settings(), view.power_limit_mw(), view.device().busy_ns, view.state().now_ns);
}

std::uint64_t realtime_us() { return static_cast<std::uint64_t>(bare::now_ns(CLOCK_REALTIME) / 1000); }

std::vector<nvmlProcessUtilizationSample_t> samples_since(const DeviceView& view, std::uint64_t last_seen_us) {
  const std::uint64_t now_us = realtime_us(), now_ns = view.state().now_ns;
  const std::uint64_t ago_ns =
      last_seen_us >= now_us ? 0 : std::min<std::uint64_t>(now_us - last_seen_us, 1'000'000) * 1000;
  const std::uint64_t from_ns = now_ns > ago_ns ? now_ns - ago_ns : 0;
  std::vector<nvmlProcessUtilizationSample_t> samples;
  for (std::uint32_t i = 0; i < kMaxAccounts; ++i) {
    const Account& account = view.state().accounts[i];
    if (account.used != 1 || account.device != view.index()) continue;
    const unsigned busy = view.busy_percent(view.state().history[i], from_ns);
    if (busy > 0)
      samples.push_back(
          {.pid = shown_pid(account), .timeStamp = now_us, .smUtil = busy, .memUtil = 0, .encUtil = 0, .decUtil = 0});
  }
  return samples;
}

namespace {

constexpr unsigned kSamplingPeriodUs = 167'000;

nvmlReturn_t clock_of(const DeviceView& view, nvmlClockType_t type, bool most, unsigned* out) {
  if (out == nullptr || type > NVML_CLOCK_VIDEO) return NVML_ERROR_INVALID_ARGUMENT;
  if (!most) *out = clock_mhz(view, type);
  else *out = type == NVML_CLOCK_MEM ? view.profile().memory_clock_max_mhz : view.profile().sm_clock_max_mhz;
  return NVML_SUCCESS;
}

// Gives each sample as an `Info`. Without a buffer, tells the possible number; with one, the samples, or NOT_FOUND.
template <typename Info>
nvmlReturn_t give_samples(const DeviceView& view, std::uint64_t last_seen_us, unsigned& count, Info* out) {
  const auto samples = samples_since(view, last_seen_us);
  const auto room = std::exchange(count, static_cast<unsigned>(samples.size()));
  if (samples.empty()) return NVML_ERROR_NOT_FOUND;
  if (out == nullptr || room < samples.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (const auto& one : samples) {
    Info& told = *out++ = {};
    told.timeStamp = one.timeStamp;
    told.pid = one.pid;
    told.smUtil = one.smUtil;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t idle_engine(DeviceCall call, unsigned* utilization, unsigned* period_us) {
  call.complete = utilization != nullptr && period_us != nullptr;
  return on_device(call, [&](const DeviceView&) { *utilization = 0, *period_us = kSamplingPeriodUs; });
}

}  // namespace

extern "C" {

// Memory utilisation is 0, because simulated kernels access no memory.
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  return on_device({device, {utilization}},
                   [&](const DeviceView& view) { *utilization = {.gpu = view.busy_percent(), .memory = 0}; });
}

nvmlReturn_t nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned* utilization, unsigned* samplingPeriodUs) {
  return idle_engine(device, utilization, samplingPeriodUs);
}
nvmlReturn_t nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned* utilization, unsigned* samplingPeriodUs) {
  return idle_engine(device, utilization, samplingPeriodUs);
}
nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned* utilization, unsigned* samplingPeriodUs) {
  return idle_engine(device, utilization, samplingPeriodUs);
}
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned* utilization, unsigned* samplingPeriodUs) {
  return idle_engine(device, utilization, samplingPeriodUs);
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t* utilization,
                                             unsigned* processSamplesCount, unsigned long long lastSeenTimeStamp) {
  return on_device({device, {processSamplesCount}}, [&](const DeviceView& view) {
    return give_samples(view, lastSeenTimeStamp, *processSamplesCount, utilization);
  });
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t* info) {
  return on_device({device, {info}}, [&](const DeviceView& view) {
    if (info->version != kProcessesUtilizationVersion) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return give_samples(view, info->lastSeenTimeStamp, info->processSamplesCount, info->procUtilArray);
  });
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* clock) {
  return on_device(device, [&](const DeviceView& view) { return clock_of(view, type, false, clock); });
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* clock) {
  return on_device(device, [&](const DeviceView& view) { return clock_of(view, type, true, clock); });
}

// Server cards always stay in P0.
SIM_GETTER(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
SIM_GETTER(nvmlDeviceGetPowerState, nvmlPstates_t, NVML_PSTATE_0)
SIM_GETTER(nvmlDeviceGetPowerUsage, unsigned, power_mw(view))
SIM_GETTER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, energy_mj(view))

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned* temp) {
  return on_device(device, [&](const DeviceView& view) {
    if (temp == nullptr || sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    *temp = temperature_c(view);
    return NVML_SUCCESS;
  });
}

SIM_GETTER(nvmlDeviceGetPowerManagementLimit, unsigned, view.power_limit_mw())
SIM_GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned, view.power_limit_mw())
SIM_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, view.profile().power_default_mw)
nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned* minLimit, unsigned* maxLimit) {
  return on_device({device, {minLimit, maxLimit}}, [&](const DeviceView& view) {
    *minLimit = view.profile().power_min_mw;
    *maxLimit = view.profile().power_max_mw;
  });
}

}  // extern "C"
}  // namespace headgate::sim::nvml
