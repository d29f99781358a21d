// Which GPUs NVML shows: inside a share only those of the share, numbered as CUDA numbers them, by every call.
#include <algorithm>
#include <iterator>

#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/shown_gpus.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

nvmlReturn_t shown_count(nvmlReturn_t result, unsigned* count) {
  if (result != NVML_SUCCESS || count == nullptr) return result;
  if (const unsigned shown = shown_gpus(); shown != 0) *count = shown;
  return result;
}

template <typename ByIndex>
nvmlReturn_t by_shown_number(ByIndex* const& by_index, unsigned number, nvmlDevice_t* device) {
  const unsigned shown = shown_gpus();
  if (shown == 0) return forward(by_index, number, device);
  return number < shown ? forward(by_index, driver_number(number), device) : NVML_ERROR_INVALID_ARGUMENT;
}

// Hides a device that was found but does not belong to the share.
nvmlReturn_t if_shown(nvmlReturn_t result, nvmlDevice_t* device) {
  if (result != NVML_SUCCESS || device == nullptr || !is_hidden(*device)) return result;
  *device = nullptr;
  return NVML_ERROR_NOT_FOUND;
}

// For NVML's lists of handles: *count is the capacity on entry and the number on return. What a driver returns for too
// little capacity is not documented, so the list is queried that way first.
template <typename List>
nvmlReturn_t shown_list(unsigned* count, nvmlDevice_t* devices, List list) {
  if (count == nullptr || shown_gpus() == 0) return list(count, devices);
  nvmlDevice_t all[64] = {};  // more than any node has
  unsigned listed = 0, ours = 0;
  const nvmlReturn_t counted = list(&listed, nullptr);
  if (counted != NVML_SUCCESS && counted != NVML_ERROR_INSUFFICIENT_SIZE) return counted;
  if (listed > std::size(all)) return NVML_ERROR_UNKNOWN;
  if (const nvmlReturn_t result = listed == 0 ? NVML_SUCCESS : list(&listed, all); result != NVML_SUCCESS)
    return result;
  for (unsigned i = 0; i < listed; ++i) {
    if (!is_hidden(all[i])) all[ours++] = all[i];
  }
  const unsigned room = devices == nullptr ? 0 : *count;
  std::copy_n(all, std::min(room, ours), devices);
  *count = ours;
  return ours > room ? counted : NVML_SUCCESS;
}

}  // namespace

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetCount(unsigned* deviceCount) {
  return shown_count(forward(nvml.nvmlDeviceGetCount, deviceCount), deviceCount);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* deviceCount) {
  return shown_count(forward(nvml.nvmlDeviceGetCount_v2, deviceCount), deviceCount);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return by_shown_number(nvml.nvmlDeviceGetHandleByIndex, index, device);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  return by_shown_number(nvml.nvmlDeviceGetHandleByIndex_v2, index, device);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* pciBusId, nvmlDevice_t* device) {
  return if_shown(forward(nvml.nvmlDeviceGetHandleByPciBusId, pciBusId, device), device);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* pciBusId, nvmlDevice_t* device) {
  return if_shown(forward(nvml.nvmlDeviceGetHandleByPciBusId_v2, pciBusId, device), device);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* serial, nvmlDevice_t* device) {
  return if_shown(forward(nvml.nvmlDeviceGetHandleBySerial, serial, device), device);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  return if_shown(forward(nvml.nvmlDeviceGetHandleByUUID, uuid, device), device);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  const nvmlReturn_t result = forward(nvml.nvmlDeviceGetIndex, device, index);
  if (result != NVML_SUCCESS || index == nullptr) return result;
  if (is_hidden(device)) return NVML_ERROR_NOT_FOUND;
  if (unsigned number = 0; shown_number(device, number)) *index = number;
  return result;
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level,
                                                            unsigned* count, nvmlDevice_t* deviceArray) {
  return shown_list(count, deviceArray, [=](unsigned* room, nvmlDevice_t* list) {
    return forward(nvml.nvmlDeviceGetTopologyNearestGpus, device, level, room, list);
  });
}

HEADGATE_HOOK nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned cpuNumber, unsigned* count, nvmlDevice_t* deviceArray) {
  return shown_list(count, deviceArray, [=](unsigned* room, nvmlDevice_t* list) {
    return forward(nvml.nvmlSystemGetTopologyGpuSet, cpuNumber, room, list);
  });
}
