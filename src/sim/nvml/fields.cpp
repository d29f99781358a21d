// Values by number: field values, samples of the last seconds, and durations of clock throttling.
#include <vector>

#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {
namespace {

constexpr std::uint64_t kSampleNs = 100'000'000;
constexpr std::uint64_t kKeptNs = 6'000'000'000;

void give(nvmlFieldValue_t& field, std::uint64_t value, bool wide) {
  field.nvmlReturn = NVML_SUCCESS;
  field.valueType = wide ? NVML_VALUE_TYPE_UNSIGNED_LONG_LONG : NVML_VALUE_TYPE_UNSIGNED_INT;
  field.value = {};
  if (wide) field.value.ullVal = value;
  else field.value.uiVal = static_cast<unsigned>(value);
}

// NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX: KiB since the driver was loaded. The scope is a link, or UINT_MAX for
// all. The node counts per card; each link gets an equal part.
void give_link_data(const DeviceView& view, nvmlFieldValue_t& field) {
  constexpr unsigned kSent = 138;
  const unsigned links = nvlinks(view.profile());
  const bool all = field.scopeId == ~0U;
  field.nvmlReturn = links == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
  if (links == 0 || (!all && field.scopeId >= links)) return;
  const NvmlDevice& device = view.settings();
  const std::uint64_t bytes = field.fieldId == kSent ? device.nvlink_sent_bytes : device.nvlink_received_bytes;
  give(field, (all ? bytes : bytes / links) / 1024, true);
}

// Runs of fields that are always 0: ECC errors, in all and in device memory; throttling times; PCIe replays; remapped
// rows.
struct Zeroes {
  unsigned first, last;
  bool wide;
};
constexpr Zeroes kZeroes[] = {{3, 6, true},   {11, 12, true},  {22, 23, true},
                              {74, 81, true}, {94, 95, false}, {142, 145, false}};

// Numbers from nvml.h (NVML_FI_DEV_*), and CUDA 12's power fields 185 to 192, for the GPU only (scope 0), because it
// has no module around it.
void answer_field(const DeviceView& view, nvmlFieldValue_t& field) {
  switch (field.fieldId) {
    case 1: return give(field, view.settings().ecc_off_now == 0 ? 1 : 0, false);  // ECC now
    case 2: return give(field, view.settings().ecc_off == 0 ? 1 : 0, false);      // ECC after a reset
    case 82: return give(field, temperature_c(view), false);                      // memory
    case 83:
    case 191: return give(field, energy_mj(view), true);
    case 91: return give(field, nvlinks(view.profile()), false);
    case 138:
    case 139: return give_link_data(view, field);
    default: break;
  }
  const auto* zero = std::ranges::find_if(
      kZeroes, [&](const Zeroes& run) { return field.fieldId >= run.first && field.fieldId <= run.last; });
  if (zero != std::end(kZeroes)) return give(field, 0, zero->wide);
  if (field.fieldId >= 185 && field.fieldId <= 192 && field.fieldId != 191 && field.scopeId == 0) {
    const Profile& profile = view.profile();
    const auto now = static_cast<std::uint32_t>(power_mw(view));
    const std::uint32_t power[] = {
        now,  // average
        now, profile.power_min_mw, profile.power_max_mw, profile.power_default_mw, view.power_limit_mw(),
        0,   view.power_limit_mw()};  // as requested
    return give(field, power[field.fieldId - 185], false);
  }
  field.nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
}

struct Sampled {
  bool known;
  unsigned value;
};

Sampled sample(const DeviceView& view, nvmlSamplingType_t type, unsigned busy) {
  const Profile& profile = view.profile();
  switch (type) {
    case 0:
      return {true, profile.power_idle_mw +
                        (std::max(view.power_limit_mw(), profile.power_idle_mw) - profile.power_idle_mw) / 100 * busy};
    case 1: return {true, busy};
    case 2:
    case 3:
    case 4: return {true, 0};  // memory, encoder, decoder
    case 5: return {true, busy != 0 ? profile.sm_clock_max_mhz : profile.sm_clock_idle_mhz};
    case 6: return {true, busy != 0 ? profile.memory_clock_max_mhz : profile.memory_clock_idle_mhz};
    default: return {false, 0};
  }
}

// Returns each tenth of a second of the last six seconds that ended after `last_seen_us`, oldest first. The grid is
// fixed in node time, so that two calls return a sample once.
std::vector<nvmlSample_t> samples_of(const DeviceView& view, nvmlSamplingType_t type, unsigned long long last_seen_us) {
  const std::uint64_t now_ns = view.state().now_ns, offset_us = realtime_us() - now_ns / 1000;
  std::vector<nvmlSample_t> found;
  const std::uint64_t last = now_ns / kSampleNs, kept = kKeptNs / kSampleNs;
  for (std::uint64_t i = last > kept ? last - kept : 0; i < last; ++i) {
    const std::uint64_t end_us = (i + 1) * kSampleNs / 1000 + offset_us;
    // The wall clock's offset is computed again at each call; a millisecond covers its rounding.
    if (end_us <= last_seen_us + 1000) continue;
    const unsigned busy = held_percent(view.state().device_history[view.index()], i * kSampleNs, (i + 1) * kSampleNs);
    nvmlSample_t one{.timeStamp = end_us, .sampleValue = {}};
    one.sampleValue.uiVal = sample(view, type, busy).value;
    found.push_back(one);
  }
  return found;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t* values) {
  return on_device(device, [&](const DeviceView& view) {
    if (values == nullptr || valuesCount <= 0) return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < valuesCount; ++i) {
      values[i].timestamp = static_cast<long long>(realtime_us());
      values[i].latencyUsec = 0;
      answer_field(view, values[i]);
    }
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long lastSeenTimeStamp,
                                  nvmlValueType_t* sampleValType, unsigned* sampleCount, nvmlSample_t* samples) {
  return on_device({device, {sampleCount, sampleValType}}, [&](const DeviceView& view) {
    if (!sample(view, type, 0).known) return NVML_ERROR_NOT_SUPPORTED;
    *sampleValType = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (samples == nullptr) {
      *sampleCount = static_cast<unsigned>(kKeptNs / kSampleNs);
      return NVML_SUCCESS;
    }
    const auto found = samples_of(view, type, lastSeenTimeStamp);
    if (found.empty()) return NVML_ERROR_NOT_FOUND;
    const std::size_t told = std::min<std::size_t>(found.size(), *sampleCount);
    std::copy(found.end() - static_cast<std::ptrdiff_t>(told), found.end(), samples);
    *sampleCount = static_cast<unsigned>(told);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t perfPolicyType,
                                          nvmlViolationTime_t* violTime) {
  return on_device(device, [&](const DeviceView& view) {
    if (violTime == nullptr || perfPolicyType > 11) return NVML_ERROR_INVALID_ARGUMENT;
    *violTime = {.referenceTime = view.state().now_ns / 1000, .violationTime = 0};
    return NVML_SUCCESS;
  });
}

}  // extern "C"
}  // namespace headgate::sim::nvml
