// The board: part numbers, firmware, PCI Express, supported clocks, error counters, topology.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {
namespace {

constexpr unsigned kLanes = 16;
constexpr unsigned kClockStepMhz = 15;

// Derived from the copy speed: a generation 5 link carries about 63 GB/s over 16 lanes, a generation 4 link half of it.
unsigned link_generation(const Profile& profile) {
  return profile.host_copy_bytes_per_s > 32'000'000'000 ? 5 : profile.host_copy_bytes_per_s > 16'000'000'000 ? 4 : 3;
}
unsigned lane_mbps(unsigned generation) { return 1000U << (generation - 1); }

unsigned hottest_c(const Profile& profile) { return std::max(87U, profile.temperature_full_c + 5); }

// Calls `body` with whether two devices of this node are the same one.
template <typename Body>
nvmlReturn_t on_pair(DeviceCall call, nvmlDevice_t other, Body&& body) {
  const auto look = [&](Node& node) {
    std::uint32_t first = 0, second = 0;
    const bool known = index_of(node.profile(), call.device, first) && index_of(node.profile(), other, second);
    return known && call.complete ? status_of(body, first == second) : NVML_ERROR_INVALID_ARGUMENT;
  };
  return answer(look, call.function);
}

// Returns all CPUs: a simulated node is one NUMA node.
nvmlReturn_t affinity(DeviceCall call, unsigned words, unsigned long* set, long members) {
  return on_device(call, [&](const DeviceView&) {
    if (set == nullptr || words == 0) return NVML_ERROR_INVALID_ARGUMENT;
    constexpr long kBits = 8 * sizeof(unsigned long);
    std::fill_n(set, words, 0UL);
    for (long i = 0; i < members && i / kBits < static_cast<long>(words); ++i) set[i / kBits] |= 1UL << (i % kBits);
    return NVML_SUCCESS;
  });
}
long processors() { return std::max(::sysconf(_SC_NPROCESSORS_CONF), 1L); }

std::vector<unsigned> graphics_clocks(const Profile& profile) {
  std::vector<unsigned> clocks;
  for (unsigned mhz = profile.sm_clock_max_mhz; mhz >= profile.sm_clock_idle_mhz && mhz > 0;
       mhz -= std::min(mhz, kClockStepMhz))
    clocks.push_back(mhz);
  return clocks;
}

nvmlReturn_t application_clock(DeviceCall call, nvmlClockType_t type, bool chosen, unsigned* out) {
  return on_device(call, [&](const DeviceView& view) {
    if (out == nullptr || type > NVML_CLOCK_VIDEO) return NVML_ERROR_INVALID_ARGUMENT;
    const bool memory = type == NVML_CLOCK_MEM;
    const unsigned set = memory ? view.settings().application_memory_mhz : view.settings().application_sm_mhz;
    const unsigned top = memory ? view.profile().memory_clock_max_mhz : view.profile().sm_clock_max_mhz;
    *out = chosen && set != 0 ? set : top;
    return NVML_SUCCESS;
  });
}

// NVML's clocks event reasons.
constexpr unsigned long long kIdle = 1, kApplicationClocks = 2, kPowerCap = 4;
unsigned long long clock_reasons(const DeviceView& view) {
  if (view.busy_percent() == 0) return kIdle;
  const NvmlDevice& set = view.settings();
  unsigned long long reasons = 0;
  if (set.application_sm_mhz != 0 && set.application_sm_mhz < view.profile().sm_clock_max_mhz)
    reasons |= kApplicationClocks;
  if (view.power_limit_mw() < view.profile().power_default_mw) reasons |= kPowerCap;
  return reasons;
}

nvmlReturn_t none(DeviceCall call, unsigned* count) {
  return value_of(call, count, [](const DeviceView&) { return 0U; });
}
nvmlReturn_t none(unsigned* count, const char* function = __builtin_FUNCTION()) {
  return node_value(count, [](const Node&) { return 0U; }, function);
}

std::vector<nvmlDevice_t> devices_but(const Profile& profile, std::uint32_t left_out) {
  std::vector<nvmlDevice_t> found;
  for (std::uint32_t i = 0; i < profile.count; ++i)
    if (i != left_out) found.push_back(handle_of(i));
  return found;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char* partNumber, unsigned length) {
  return text_of(device, partNumber, length, [](const DeviceView& view) {
    char text[24];
    std::snprintf(text, sizeof text, "900-2%04X-0000-000", view.profile().pci_device_id >> 16);
    return std::string(text);
  });
}

SIM_GETTER(nvmlDeviceGetModuleId, unsigned, view.index())

nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char* version, unsigned length) {
  return text_of(device, version, length, [](const DeviceView&) { return "G520.0200.00.05"; });
}

nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, nvmlInforomObject_t object, char* version,
                                         unsigned length) {
  return on_device(device, [&](const DeviceView&) {
    switch (object) {
      case 0: return give_text("2.1", version, length);
      case 1: return give_text("7.16", version, length);
      case 2: return NVML_ERROR_NOT_SUPPORTED;  // server cards have no power object
      default: return NVML_ERROR_INVALID_ARGUMENT;
    }
  });
}

nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device) {
  return on_device(device, [](const DeviceView&) {});
}

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char* version) {
  return text_of(device, version, 0x40, [](const DeviceView& view) { return view.profile().driver_version; });
}

nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned* isEnabled, unsigned* defaultMode) {
  return on_device({device, {isEnabled, defaultMode}}, [&](const DeviceView&) { *isEnabled = *defaultMode = 1; });
}

SIM_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, link_generation(view.profile()))
SIM_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, link_generation(view.profile()))
SIM_GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, link_generation(view.profile()))
SIM_GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, kLanes)
SIM_GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, kLanes)
SIM_GETTER(nvmlDeviceGetPcieReplayCounter, unsigned, 0U)
SIM_GETTER(nvmlDeviceGetPcieSpeed, unsigned, lane_mbps(link_generation(view.profile())))
SIM_GETTER(nvmlDeviceGetPcieLinkMaxSpeed, unsigned, link_generation(view.profile()))
SIM_GETTER(nvmlDeviceGetBusType, nvmlBusType_t, 2U)

// KB/s over the last 20 ms. The node keeps a history of kernels only, not of copies, so this tells only if a copy runs
// now.
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned* value) {
  return on_device(device, [&](const DeviceView& view) {
    if (value == nullptr || counter > 1) return NVML_ERROR_INVALID_ARGUMENT;
    const std::uint32_t copy = view.device().copying[counter == 0 ? 1 : 0];  // the GPU sends in a copy to the host
    *value = copy != kNone ? static_cast<unsigned>(view.profile().host_copy_bytes_per_s / 1024) : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t clockType, nvmlClockId_t clockId,
                                unsigned* clockMHz) {
  switch (clockId) {
    case 0: return nvmlDeviceGetClockInfo(device, clockType, clockMHz);
    case 1: return application_clock(device, clockType, true, clockMHz);
    case 2: return application_clock(device, clockType, false, clockMHz);
    case 3: return nvmlDeviceGetMaxClockInfo(device, clockType, clockMHz);
    default: return NVML_ERROR_INVALID_ARGUMENT;
  }
}
nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t clockType, unsigned* clockMHz) {
  return application_clock(device, clockType, true, clockMHz);
}
nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t clockType, unsigned* clockMHz) {
  return application_clock(device, clockType, false, clockMHz);
}
nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, nvmlClockType_t clockType, unsigned* clockMHz) {
  return application_clock(device, clockType, false, clockMHz);
}

SIM_GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, clock_reasons(view))
SIM_GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, clock_reasons(view))
constexpr unsigned long long kEveryReason = 0x1ff;
SIM_GETTER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, kEveryReason)
SIM_GETTER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, kEveryReason)

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned* count, unsigned* clocksMHz) {
  return on_device(device, [&](const DeviceView& view) {
    return give_list(std::vector{view.profile().memory_clock_max_mhz, view.profile().memory_clock_idle_mhz}, count,
                     clocksMHz);
  });
}
nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned memoryClockMHz, unsigned* count,
                                                  unsigned* clocksMHz) {
  return on_device(device, [&](const DeviceView& view) {
    const Profile& profile = view.profile();
    if (memoryClockMHz != profile.memory_clock_max_mhz && memoryClockMHz != profile.memory_clock_idle_mhz)
      return NVML_ERROR_NOT_FOUND;
    return give_list(graphics_clocks(profile), count, clocksMHz);
  });
}

nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, nvmlPstates_t* pstates, unsigned size) {
  return on_device({device, {pstates}}, [&](const DeviceView&) {
    if (size < sizeof *pstates) return NVML_ERROR_INSUFFICIENT_SIZE;
    std::fill_n(pstates, size / sizeof *pstates, NVML_PSTATE_UNKNOWN);
    pstates[0] = NVML_PSTATE_0;
    return NVML_SUCCESS;
  });
}

SIM_GETTER(nvmlDeviceGetPowerSource, nvmlPowerSource_t, 0U)

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t errorType,
                                         nvmlEccCounterType_t counterType, unsigned long long* eccCounts) {
  return on_device(device, [&](const DeviceView&) {
    if (eccCounts == nullptr || errorType > 1 || counterType > 1) return NVML_ERROR_INVALID_ARGUMENT;
    *eccCounts = 0;  // simulated memory has no errors
    return NVML_SUCCESS;
  });
}
// Locations counted by Ampere and newer: device memory (2), SRAM (7). nvml.h on MIG slices: only volatile (0)
// uncorrected (1) errors outside device memory.
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t errorType,
                                             nvmlEccCounterType_t counterType, nvmlMemoryLocation_t locationType,
                                             unsigned long long* count) {
  return on_device_or_slice(device, [&](const DeviceView&, Slice slice) {
    const bool counted =
        slice ? errorType == 1 && counterType == 0 && locationType == 7 : locationType == 2 || locationType == 7;
    if (locationType < 8 && !counted) return NVML_ERROR_NOT_SUPPORTED;
    if (count == nullptr || errorType > 1 || counterType > 1 || locationType >= 8) return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned* corrRows, unsigned* uncRows, unsigned* isPending,
                                       unsigned* failureOccurred) {
  return on_device({device, {corrRows, uncRows, isPending, failureOccurred}},
                   [&](const DeviceView&) { *corrRows = *uncRows = *isPending = *failureOccurred = 0; });
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t* values) {
  return value_of(device, values, [](const DeviceView& view) {
    // Banks with all their spare rows left: one for each 128 MiB.
    return nvmlRowRemapperHistogramValues_t{
        .max = static_cast<unsigned>(view.profile().memory_bytes >> 27), .high = 0, .partial = 0, .low = 0, .none = 0};
  });
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t thresholdType,
                                               unsigned* temp) {
  return on_device(device, [&](const DeviceView& view) {
    if (temp == nullptr || thresholdType > 6) return NVML_ERROR_INVALID_ARGUMENT;
    const unsigned hottest = hottest_c(view.profile());
    const unsigned thresholds[] = {hottest + 8, hottest + 5, hottest + 8, hottest};
    if (thresholdType > 3) return NVML_ERROR_NOT_SUPPORTED;  // acoustic: for cards with a fan
    *temp = thresholds[thresholdType];
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned* sessionCount, unsigned* averageFps,
                                       unsigned* averageLatency) {
  return on_device({device, {sessionCount, averageFps, averageLatency}},
                   [&](const DeviceView&) { *sessionCount = *averageFps = *averageLatency = 0; });
}
nvmlReturn_t nvmlDeviceGetEncoderSessions(nvmlDevice_t device, unsigned* sessionCount, nvmlEncoderSessionInfo_t*) {
  return none(device, sessionCount);
}
nvmlReturn_t nvmlDeviceGetFBCSessions(nvmlDevice_t device, unsigned* sessionCount, nvmlFBCSessionInfo_t*) {
  return none(device, sessionCount);
}
SIM_GETTER(nvmlDeviceGetFBCStats, nvmlFBCStats_t, nvmlFBCStats_t{})

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2, nvmlGpuP2PCapsIndex_t p2pIndex,
                                    nvmlGpuP2PStatus_t* p2pStatus) {
  return on_pair(device1, device2, [&](bool) {
    if (p2pStatus == nullptr || p2pIndex > 4) return NVML_ERROR_INVALID_ARGUMENT;
    *p2pStatus = 5;  // NOT_SUPPORTED: no bandwidth between peers is modelled
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
                                                 nvmlGpuTopologyLevel_t* pathInfo) {
  return on_pair({device1, {pathInfo}}, device2, [&](bool same) {
    *pathInfo = same ? 0 : 40;  // the same board, or one NUMA node
  });
}
nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device1, nvmlDevice_t device2, int* onSameBoard) {
  return on_pair({device1, {onSameBoard}}, device2, [&](bool same) { *onSameBoard = same ? 1 : 0; });
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned* count,
                                              nvmlDevice_t* deviceArray) {
  return on_device(device, [&](const DeviceView& view) {
    const bool near = level == 40;
    return give_list(near ? devices_but(view.profile(), view.index()) : std::vector<nvmlDevice_t>{}, count,
                     deviceArray);
  });
}
nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned cpuNumber, unsigned* count, nvmlDevice_t* deviceArray) {
  return answer([&](Node& node) {
    if (cpuNumber >= static_cast<unsigned long>(processors())) return NVML_ERROR_INVALID_ARGUMENT;
    return give_list(devices_but(node.profile(), kNone), count, deviceArray);
  });
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned cpuSetSize, unsigned long* cpuSet) {
  return affinity(device, cpuSetSize, cpuSet, processors());
}
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned cpuSetSize, unsigned long* cpuSet,
                                                 nvmlAffinityScope_t scope) {
  return scope > 1 ? NVML_ERROR_INVALID_ARGUMENT : affinity(device, cpuSetSize, cpuSet, processors());
}
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned nodeSetSize, unsigned long* nodeSet,
                                         nvmlAffinityScope_t scope) {
  return scope > 1 ? NVML_ERROR_INVALID_ARGUMENT : affinity(device, nodeSetSize, nodeSet, 1);
}

nvmlReturn_t nvmlSystemGetHicVersion(unsigned* hwbcCount, nvmlHwbcEntry_t*) { return none(hwbcCount); }
nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned* deviceCount) { return none(deviceCount); }
nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned* deviceCount) { return none(deviceCount); }

}  // extern "C"
}  // namespace headgate::sim::nvml
