#include "observe/test_nvml.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "guest/abi/nvml.hpp"
#include "nvml/library.hpp"

using namespace headgate;
using namespace headgate::abi;

namespace {

observe::Script script;

nvmlReturn_t give(const std::vector<observe::ScriptedRow>& rows, unsigned* count, nvmlProcessInfo_t* out) {
  const unsigned room = *count;
  *count = static_cast<unsigned>(rows.size());
  if (room < rows.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out[i] = {};
    out[i].pid = rows[i].pid;
    out[i].usedGpuMemory = rows[i].bytes;
  }
  return NVML_SUCCESS;
}

// Handles: a GPU's points to its byte of the script, a slice's lies behind those of all GPUs.
constexpr std::size_t kFirstSlice = 64;
nvmlDevice_t handle(std::size_t number) {
  return reinterpret_cast<nvmlDevice_t>(reinterpret_cast<char*>(&script) + number);
}
std::size_t number_of(nvmlDevice_t device) {
  return static_cast<std::size_t>(reinterpret_cast<char*>(device) - reinterpret_cast<char*>(&script));
}
// Returns null for a GPU's handle.
const std::string* slice_of(nvmlDevice_t device) {
  const std::size_t number = number_of(device);
  return number < kFirstSlice ? nullptr : &script.slices[number - kFirstSlice];
}

nvmlReturn_t give_text(const std::string& from, char* text, unsigned length) {
  return std::strncpy(text, from.c_str(), length), NVML_SUCCESS;
}

// Returns a figure of the board, if there is one.
template <typename T>
nvmlReturn_t give(T observe::ScriptedBoard::* figure, T* out) {
  if (!script.board) return NVML_ERROR_NOT_SUPPORTED;
  return *out = (*script.board).*figure, NVML_SUCCESS;
}

template <typename T>
const T& nth(const std::vector<T>& rows, std::size_t asked) {
  return rows[std::min(asked, rows.size() - 1)];
}

}  // namespace

#define SCRIPTED extern "C" __attribute__((visibility("default")))

SCRIPTED observe::Script* scripted_nvml() { return &script; }
SCRIPTED nvmlReturn_t nvmlInit_v2() { return NVML_SUCCESS; }
SCRIPTED nvmlReturn_t nvmlShutdown() { return NVML_SUCCESS; }
SCRIPTED nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  if (script.when_counted != nullptr) script.when_counted();
  return *count = script.gpus, script.answers ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  return *device = handle(index), NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* text, unsigned length) {
  const std::string* slice = slice_of(device);
  return give_text(slice != nullptr ? *slice : std::string("GPU-") + static_cast<char>('a' + number_of(device)), text,
                   length);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* text, unsigned length) {
  return give_text(slice_of(device) != nullptr ? "scripted MIG 1g.8gb" : "scripted", text, length);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  if (slice_of(device) != nullptr) {
    *memory = {.total = observe::kScriptedTotal / 8, .free = observe::kScriptedTotal / 8 - 3, .used = 3};
    return NVML_SUCCESS;
  }
  const std::uint64_t used = nth(script.used_bytes, script.memory_asked++);
  *memory = {.total = observe::kScriptedTotal, .free = observe::kScriptedTotal - used, .used = used};
  return NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return give_text(script.driver_version, text, length);
}
SCRIPTED nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t, nvmlSetMemoryLimits_v1_t* limits) {
  if (script.limit_result != 0) return static_cast<nvmlReturn_t>(script.limit_result);
  script.limits_set.push_back(std::string(limits->nameSpace) + " " + std::to_string(limits->softLimit) + " " +
                              std::to_string(limits->hardLimit));
  if (!script.limit_is_kept) return NVML_SUCCESS;
  const std::uint64_t used = script.limits[limits->nameSpace].used;
  return script.limits[limits->nameSpace] = {limits->softLimit, limits->hardLimit, used}, NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t, nvmlGetMemoryLimits_v1_t* limits) {
  const auto found = script.limits.find(limits->nameSpace);
  if (found == script.limits.end()) return NVML_ERROR_NOT_SUPPORTED;  // as release 615 without the dmem controller
  limits->softLimit = found->second.soft;
  limits->hardLimit = found->second.hard;
  return limits->currentUsed = found->second.used, NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned* count, nvmlProcessInfo_t* rows) {
  return give(nth(script.compute, script.lists_asked++), count, rows);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t, unsigned* count,
                                                                 nvmlProcessInfo_t* rows) {
  return give(script.mps, count, rows);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t, nvmlProcessUtilizationSample_t* samples,
                                                      unsigned* count, unsigned long long) {
  const unsigned room = *count;
  *count = static_cast<unsigned>(script.utilization.size());
  if (script.utilization.empty()) return NVML_ERROR_NOT_FOUND;
  if (room < script.utilization.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (std::size_t i = 0; i < script.utilization.size(); ++i)
    samples[i] = {.pid = script.utilization[i][0], .timeStamp = 1, .smUtil = script.utilization[i][1]};
  return NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t, nvmlEnableState_t* mode) {
  *mode = script.accounting ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  return NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t, unsigned* count, unsigned* pids) {
  *count = static_cast<unsigned>(script.accounted.size());
  for (std::size_t i = 0; i < script.accounted.size(); ++i) pids[i] = script.accounted[i].pid;
  return NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t, unsigned pid, void* out) {
  struct {
    unsigned busy, memory_busy;
    unsigned long long peak, time_ms, start_us;
    unsigned running, reserved[5];
  } stats{};
  const auto found = std::ranges::find(script.accounted, pid, &observe::ScriptedEnd::pid);
  if (found == script.accounted.end()) return NVML_ERROR_NOT_FOUND;
  stats.busy = 40;
  stats.peak = found->peak_bytes;
  stats.time_ms = 300;
  stats.running = found->running ? 1 : 0;
  std::memcpy(out, &stats, sizeof stats);
  return NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t, nvmlUtilization_t* rates) {
  if (!script.board) return NVML_ERROR_NOT_SUPPORTED;
  return *rates = {script.board->busy, script.board->memory_busy}, NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t, nvmlTemperatureSensors_t sensor, unsigned* celsius) {
  return sensor == NVML_TEMPERATURE_GPU ? give(&observe::ScriptedBoard::celsius, celsius) : NVML_ERROR_NOT_SUPPORTED;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t, unsigned* milliwatts) {
  return give(&observe::ScriptedBoard::milliwatts, milliwatts);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t, unsigned* milliwatts) {
  return give(&observe::ScriptedBoard::limit_milliwatts, milliwatts);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t, nvmlClockType_t type, unsigned* mhz) {
  if (!script.board) return NVML_ERROR_NOT_SUPPORTED;
  return *mhz = script.board->clocks_mhz[type], NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t, unsigned long long* millijoules) {
  return give(&observe::ScriptedBoard::millijoules, millijoules);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t, unsigned long long* bits) {
  return give(&observe::ScriptedBoard::slowed_by, bits);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t, unsigned* generation) {
  return give(&observe::ScriptedBoard::pcie_generation, generation);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t, unsigned* lanes) {
  return give(&observe::ScriptedBoard::pcie_width, lanes);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t, nvmlComputeMode_t* mode) {
  if (!script.board) return NVML_ERROR_NOT_SUPPORTED;
  return *mode = static_cast<nvmlComputeMode_t>(script.board->compute_mode), NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t, nvmlEnableState_t* now, nvmlEnableState_t* after_reset) {
  if (!script.board) return NVML_ERROR_NOT_SUPPORTED;
  *now = script.board->ecc ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  *after_reset = script.board->ecc ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t, unsigned type, unsigned counter,
                                                  unsigned long long* count) {
  if (!script.ecc_errors) return NVML_ERROR_NOT_SUPPORTED;
  return *count = (*script.ecc_errors)[type][counter], NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t, unsigned* percent, unsigned* period_us) {
  if (!script.video_percent) return NVML_ERROR_NOT_SUPPORTED;
  return *percent = (*script.video_percent)[0], *period_us = 167'000, NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t, unsigned* percent, unsigned* period_us) {
  if (!script.video_percent) return NVML_ERROR_NOT_SUPPORTED;
  return *percent = (*script.video_percent)[1], *period_us = 167'000, NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t, unsigned* count) {
  if (!script.pcie_replays) return NVML_ERROR_NOT_SUPPORTED;
  return *count = *script.pcie_replays, NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t, unsigned direction, unsigned* value) {
  ++script.traffic_asked;
  if (!script.pcie_kib_per_s) return NVML_ERROR_NOT_SUPPORTED;
  return *value = (*script.pcie_kib_per_s)[direction], NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t, unsigned link, nvmlEnableState_t* active) {
  if (link >= script.nvlinks.size()) return NVML_ERROR_NOT_SUPPORTED;
  *active = script.nvlinks[link].active ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  return NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t, int count, nvml::FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    nvml::FieldValue& field = values[i];
    const bool known = script.nvlink_kib && (field.id == 138 || field.id == 139) && field.scope == ~0U;
    field.result = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    field.type = nvml::kUnsignedLongLong;
    field.value = known ? (*script.nvlink_kib)[field.id - 138] : 77;
  }
  return NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t, unsigned link, unsigned kind,
                                                      unsigned long long* count) {
  if (kind >= script.nvlinks[link].errors.size()) return NVML_ERROR_NOT_SUPPORTED;
  return *count = script.nvlinks[link].errors[kind], NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t, unsigned* current, unsigned* pending) {
  if (script.slices.empty()) return NVML_ERROR_NOT_SUPPORTED;
  return *current = *pending = 1, NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t, unsigned* count) {
  return *count = static_cast<unsigned>(script.slices.size()), NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t, unsigned index, nvmlDevice_t* slice) {
  if (index >= script.slices.size() || script.slices[index].empty()) return NVML_ERROR_NOT_FOUND;
  return *slice = handle(kFirstSlice + index), NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t slice, unsigned* id) {
  return *id = static_cast<unsigned>(number_of(slice) - kFirstSlice + 1), NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t, unsigned* id) { return *id = 0, NVML_SUCCESS; }

SCRIPTED nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t, unsigned* support) {
  return support[1] = script.sm_util ? 1 : 0, NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlGpmSampleAlloc(void** sample) {
  return *sample = new char, ++script.samples_held, NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlGpmSampleFree(void* sample) {
  return delete static_cast<char*>(sample), --script.samples_held, NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t, void*) {
  return static_cast<nvmlReturn_t>(script.sm_sample_result);
}
SCRIPTED nvmlReturn_t nvmlGpmMetricsGet(void* out) {
  struct {
    unsigned version, count;
    void *first, *second;
    unsigned id;
    nvmlReturn_t result;
    double value;
  } get;
  std::memcpy(&get, out, sizeof get);
  if (get.first == get.second || get.id != 2) return NVML_ERROR_INVALID_ARGUMENT;
  get.result = NVML_SUCCESS;
  get.value = nth(*script.sm_util, script.sm_asked++);
  return std::memcpy(out, &get, sizeof get), NVML_SUCCESS;
}
