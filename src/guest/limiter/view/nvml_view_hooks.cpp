// NVML as a member sees it: the share's memory, its processes, its utilisation.
#include <algorithm>
#include <atomic>
#include <cerrno>

#include "guest/bare/scratch.hpp"
#include "guest/ledger/slot.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/view/share_view.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

namespace bare = headgate::bare;
namespace ledger = headgate::ledger;

constexpr unsigned kMaxListed = 512;

bool in_share(unsigned pid) {
  for (std::uint32_t i = 0; i < ledger::kMaxSlots; ++i) {
    const ledger::SlotView slot = ledger::view(*session.usage, i);
    if (slot.kind == ledger::SlotKind::live && slot.identity.pid == pid) return true;
  }
  return false;
}

// NVML's protocol: *count is the room on the way in and the number on the way out; too little room answers
// INSUFFICIENT_SIZE with the number needed.
template <typename Entry, typename List>
nvmlReturn_t share_processes(List* const& list, nvmlDevice_t device, unsigned* count, Entry* entries) {
  if (count == nullptr || nvml_device_index(device) == kNoDevice) return forward(list, device, count, entries);
  const bare::Scratch<Entry[kMaxListed]> scratch;
  if (!scratch) return NVML_ERROR_OPERATING_SYSTEM;
  Entry(&all)[kMaxListed] = *scratch;
  unsigned listed = kMaxListed;
  const nvmlReturn_t result = forward(list, device, &listed, all);
  if (result != NVML_SUCCESS) return forward(list, device, count, entries);
  unsigned ours = 0;
  for (unsigned i = 0; i < listed; ++i) {
    if (in_share(all[i].pid)) all[ours++] = all[i];
  }
  const unsigned room = entries == nullptr ? 0 : *count;
  *count = ours;
  if (ours > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::copy_n(all, ours, entries);
  return NVML_SUCCESS;
}

MemoryView view_of(std::uint32_t index, std::uint64_t total, std::uint64_t free) {
  const int saved = errno;
  const MemoryView view = share_memory(index, total, free);
  errno = saved;
  return view;
}

// What the share held of the GPU between two looks at least a second and at most a minute apart.
struct Look {
  std::atomic<std::int64_t> at_ns;
  std::atomic<std::uint64_t> held_ns;
  std::atomic<unsigned> percent;
  std::atomic<bool> known;
};
Look looks[ledger::kMaxDevices];

bool held_percent(std::uint32_t index, unsigned& percent) {
  Look& look = looks[index];
  const std::int64_t now = coarse_now_ns();
  const std::uint64_t held = session.usage->compute[index].held_ns.load(std::memory_order_relaxed);
  const std::int64_t age = now - look.at_ns.load(std::memory_order_relaxed);
  if (age >= 1'000'000'000) {
    const std::uint64_t before = look.held_ns.load(std::memory_order_relaxed);
    const std::uint64_t spent = held > before ? held - before : 0;
    const auto window = static_cast<std::uint64_t>(age);
    look.known.store(age <= 60'000'000'000, std::memory_order_relaxed);
    look.percent.store(static_cast<unsigned>(std::min<std::uint64_t>(100, (spent * 100 + window / 2) / window)),
                       std::memory_order_relaxed);
    look.held_ns.store(held, std::memory_order_relaxed);
    look.at_ns.store(now, std::memory_order_relaxed);
  }
  percent = look.percent.load(std::memory_order_relaxed);
  return look.known.load(std::memory_order_relaxed);
}

}  // namespace

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  const nvmlReturn_t result = forward(nvml.nvmlDeviceGetMemoryInfo, device, memory);
  if (result != NVML_SUCCESS || memory == nullptr) return result;
  const std::uint32_t index = nvml_device_index(device);
  if (index == kNoDevice) return result;
  const MemoryView view = view_of(index, memory->total, memory->free);
  *memory = {view.total_bytes, view.free_bytes, view.total_bytes - view.free_bytes};
  return result;
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  const nvmlReturn_t result = forward(nvml.nvmlDeviceGetMemoryInfo_v2, device, memory);
  if (result != NVML_SUCCESS || memory == nullptr) return result;
  const std::uint32_t index = nvml_device_index(device);
  if (index == kNoDevice) return result;
  // What the driver keeps for itself is the card's affair: a share has no reserved part.
  const MemoryView view = view_of(index, memory->total, memory->free);
  *memory = {memory->version, view.total_bytes, 0, view.free_bytes, view.total_bytes - view.free_bytes};
  return result;
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* infoCount,
                                                                nvmlProcessInfo_v1_t* infos) {
  return share_processes(nvml.nvmlDeviceGetComputeRunningProcesses, device, infoCount, infos);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* infoCount,
                                                                   nvmlProcessInfo_v2_t* infos) {
  return share_processes(nvml.nvmlDeviceGetComputeRunningProcesses_v2, device, infoCount, infos);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* infoCount,
                                                                   nvmlProcessInfo_t* infos) {
  return share_processes(nvml.nvmlDeviceGetComputeRunningProcesses_v3, device, infoCount, infos);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned* infoCount,
                                                                 nvmlProcessInfo_v1_t* infos) {
  return share_processes(nvml.nvmlDeviceGetGraphicsRunningProcesses, device, infoCount, infos);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned* infoCount,
                                                                    nvmlProcessInfo_v2_t* infos) {
  return share_processes(nvml.nvmlDeviceGetGraphicsRunningProcesses_v2, device, infoCount, infos);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned* infoCount,
                                                                    nvmlProcessInfo_t* infos) {
  return share_processes(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, device, infoCount, infos);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned* infoCount,
                                                                   nvmlProcessInfo_v1_t* infos) {
  return share_processes(nvml.nvmlDeviceGetMPSComputeRunningProcesses, device, infoCount, infos);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* infoCount,
                                                                      nvmlProcessInfo_v2_t* infos) {
  return share_processes(nvml.nvmlDeviceGetMPSComputeRunningProcesses_v2, device, infoCount, infos);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* infoCount,
                                                                      nvmlProcessInfo_t* infos) {
  return share_processes(nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, device, infoCount, infos);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                           nvmlProcessUtilizationSample_t* utilization,
                                                           unsigned* processSamplesCount,
                                                           unsigned long long lastSeenTimeStamp) {
  const nvmlReturn_t result =
      forward(nvml.nvmlDeviceGetProcessUtilization, device, utilization, processSamplesCount, lastSeenTimeStamp);
  if (result != NVML_SUCCESS || utilization == nullptr || processSamplesCount == nullptr) return result;
  if (nvml_device_index(device) == kNoDevice) return result;
  unsigned ours = 0;
  for (unsigned i = 0; i < *processSamplesCount; ++i) {
    if (in_share(utilization[i].pid)) utilization[ours++] = utilization[i];
  }
  *processSamplesCount = ours;
  return result;
}

// A program that asks once, or for the first time, gets the card's own figure: there is no earlier look to compare with.
HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  const nvmlReturn_t result = forward(nvml.nvmlDeviceGetUtilizationRates, device, utilization);
  if (result != NVML_SUCCESS || utilization == nullptr) return result;
  const std::uint32_t index = nvml_device_index(device);
  unsigned percent = 0;
  if (index != kNoDevice && held_percent(index, percent)) utilization->gpu = percent;
  return result;
}
