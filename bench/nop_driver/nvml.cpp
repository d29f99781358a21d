// An idle NVML for that driver: one device without work, and this process on it, with no bytes, once it has a context.
// It is the same file as libcuda.so.1 under a second name, so it knows of the context. Preloaded libraries ask NVML for
// their own process and for the device's load; without these results some never enable their limits.
#include <unistd.h>

#include <cstring>
#include <ctime>

#include "guest/abi/nvml.hpp"
#include "nop_driver/calls.hpp"

#define NOP_ANSWER extern "C" __attribute__((visibility("default")))

namespace headgate::abi {

using bench::nop::count_call;

namespace {

char g_device;

nvmlReturn_t give_device(nvmlDevice_t* device) {
  *device = reinterpret_cast<nvmlDevice_t>(&g_device);
  return NVML_SUCCESS;
}

// Like NVML: if there is too little room, returns the number needed.
template <typename Entry>
nvmlReturn_t list(unsigned* count, Entry* entries) {
  count_call();
  const unsigned room = *count;
  *count = bench::nop::g_has_context.load(std::memory_order_relaxed) ? 1 : 0;
  if (room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (*count == 1) {
    entries[0] = {};
    entries[0].pid = static_cast<unsigned>(::getpid());
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nobody(unsigned* count) {
  count_call();
  *count = 0;
  return NVML_SUCCESS;
}

}  // namespace

NOP_ANSWER nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  count_call();
  *count = 1;
  return NVML_SUCCESS;
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }
NOP_ANSWER nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  count_call();
  return index == 0 ? give_device(device) : NVML_ERROR_INVALID_ARGUMENT;
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetHandleByUUID(const char*, nvmlDevice_t* device) {
  count_call();
  return give_device(device);
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t, unsigned* index) {
  count_call();
  *index = 0;
  return NVML_SUCCESS;
}
// The bytes of cuDeviceGetUuid, formatted by NVML's rules.
NOP_ANSWER nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char* uuid, unsigned length) {
  count_call();
  constexpr char kText[] = "GPU-646f2d6e-6f74-6869-6e67-206770752030";
  if (length < sizeof kText) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(uuid, kText, sizeof kText);
  return NVML_SUCCESS;
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t* memory) {
  count_call();
  *memory = {bench::nop::kMemoryBytes, bench::nop::kMemoryBytes, 0};
  return NVML_SUCCESS;
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, nvmlMemory_v2_t* memory) {
  count_call();
  memory->total = memory->free = bench::nop::kMemoryBytes;
  memory->used = memory->reserved = 0;
  return NVML_SUCCESS;
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t, unsigned* count,
                                                             nvmlProcessInfo_v1_t* infos) {
  return list(count, infos);
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t, unsigned* count,
                                                                nvmlProcessInfo_v2_t* infos) {
  return list(count, infos);
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned* count,
                                                                nvmlProcessInfo_t* infos) {
  return list(count, infos);
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t, unsigned* count, nvmlProcessInfo_v1_t*) {
  return nobody(count);
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t, unsigned* count, nvmlProcessInfo_v2_t*) {
  return nobody(count);
}
NOP_ANSWER nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t, unsigned* count, nvmlProcessInfo_t*) {
  return nobody(count);
}
// One sample: this process has recently used none of the device.
NOP_ANSWER nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t, nvmlProcessUtilizationSample_t* samples,
                                                        unsigned* count, unsigned long long) {
  count_call();
  const unsigned room = samples == nullptr ? 0 : *count;
  *count = 1;
  if (room == 0) return NVML_ERROR_INSUFFICIENT_SIZE;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  samples[0] = {.pid = static_cast<unsigned>(::getpid()),
                .timeStamp = static_cast<unsigned long long>(now.tv_sec * 1'000'000 + now.tv_nsec / 1000),
                .smUtil = 0,
                .memUtil = 0,
                .encUtil = 0,
                .decUtil = 0};
  return NVML_SUCCESS;
}

}  // namespace headgate::abi
