#include "observe/scripted_nvml.hpp"

#include <algorithm>
#include <cstring>

#include "guest/abi/nvml.hpp"

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

template <typename T>
const T& nth(const std::vector<T>& rows, std::size_t asked) {
  return rows[std::min(asked, rows.size() - 1)];
}

}  // namespace

#define SCRIPTED extern "C" __attribute__((visibility("default")))

SCRIPTED observe::Script* scripted_nvml() { return &script; }
SCRIPTED nvmlReturn_t nvmlInit_v2() { return NVML_SUCCESS; }
SCRIPTED nvmlReturn_t nvmlShutdown() { return NVML_SUCCESS; }
SCRIPTED nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) { return *count = 1, NVML_SUCCESS; }
SCRIPTED nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned, nvmlDevice_t* device) {
  *device = reinterpret_cast<nvmlDevice_t>(&script);
  return NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char* text, unsigned length) {
  return std::strncpy(text, "GPU-a", length), NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char* text, unsigned length) {
  return std::strncpy(text, "scripted", length), NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t* memory) {
  const std::uint64_t used = nth(script.used_bytes, script.memory_asked++);
  *memory = {.total = observe::kScriptedTotal, .free = observe::kScriptedTotal - used, .used = used};
  return NVML_SUCCESS;
}
SCRIPTED nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned* count, nvmlProcessInfo_t* rows) {
  return give(nth(script.compute, script.lists_asked++), count, rows);
}
SCRIPTED nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t, unsigned* count,
                                                                 nvmlProcessInfo_t* rows) {
  return give(script.mps, count, rows);
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
