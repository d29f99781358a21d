// NVML as a member sees it: the share's memory, processes (with their accounting) and utilisation.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <type_traits>

#include "guest/bare/clock.hpp"
#include "guest/bare/scratch.hpp"
#include "guest/ledger/slot.hpp"
#include "guest/limiter/memory/draining.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/shown_gpus.hpp"
#include "guest/limiter/view/members.hpp"
#include "guest/limiter/view/share_view.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

namespace bare = headgate::bare;
namespace ledger = headgate::ledger;

constexpr unsigned kMaxListed = 512;
constexpr unsigned kMaxAccounted = 4096;  // the largest accounting buffer of current GPUs has 4000

// In a container NVML names processes by host pids, which mean nothing here. Then the ledger tells which process holds
// what.
template <typename Entry>
unsigned add_unlisted(std::uint32_t index, Entry (&all)[kMaxListed], unsigned count) {
  const unsigned listed = count;
  for (std::uint32_t i = 0; i < ledger::kMaxSlots && count < kMaxListed; ++i) {
    const Member member = member_at(i, index);
    const auto named = [&](const Entry& entry) { return entry.pid == member.pid; };
    if (member.pid == 0 || member.bytes == 0 || std::any_of(all, all + listed, named)) continue;
    all[count] = {};
    all[count].pid = member.pid;
    all[count].usedGpuMemory = member.bytes;
    if constexpr (!std::is_same_v<Entry, nvmlProcessInfo_v1_t>)
      all[count].gpuInstanceId = all[count].computeInstanceId = ~0u;
    ++count;
  }
  return count;
}

// NVML's protocol: *count is the capacity on entry and the number on return; too little capacity returns
// INSUFFICIENT_SIZE with the number needed.
template <typename Entry, typename List>
nvmlReturn_t share_processes(List* const& list, nvmlDevice_t device, unsigned* count, Entry* entries, bool computes) {
  if (is_hidden(device)) return NVML_ERROR_NOT_FOUND;
  if (count == nullptr || nvml_device_index(device) == kNoDevice) return forward(list, device, count, entries);
  const bare::Scratch<Entry[kMaxListed]> scratch;
  if (!scratch) return NVML_ERROR_OPERATING_SYSTEM;
  look_for_the_dead();
  Entry(&all)[kMaxListed] = *scratch;
  unsigned listed = kMaxListed;
  const nvmlReturn_t result = forward(list, device, &listed, all);
  if (result != NVML_SUCCESS) return forward(list, device, count, entries);
  unsigned ours = 0;
  for (unsigned i = 0; i < listed; ++i) {
    if (in_share(all[i].pid)) all[ours++] = all[i];
  }
  if (computes) ours = add_unlisted(nvml_device_index(device), all, ours);
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

// The share's GPU time between two looks, at least a second and at most a minute apart.
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

// Percent of the GPU's engines in which work of the share's processes was.
struct UsedPart {
  unsigned gpu = 0, memory = 0, encoder = 0, decoder = 0;
};

// Returns whether NVML's pids are those of our pid namespace: it lists a member of the share.
bool names_a_member(nvmlDevice_t device) {
  const bare::Scratch<nvmlProcessInfo_t[kMaxListed]> scratch;
  unsigned count = kMaxListed;
  if (!scratch || forward(nvml.nvmlDeviceGetComputeRunningProcesses_v3, device, &count, *scratch) != NVML_SUCCESS)
    return false;
  return std::any_of(*scratch, *scratch + std::min(count, kMaxListed),
                     [](const nvmlProcessInfo_t& one) { return in_share(one.pid); });
}

// NVML's figures for the share's processes in the last second. Returns false if NVML does not tell them.
bool sampled_part(nvmlDevice_t device, UsedPart& part) {
  const bare::Scratch<nvmlProcessUtilizationSample_t[kMaxListed]> scratch;
  if (!scratch) return false;
  const auto now_us = static_cast<unsigned long long>(bare::now_ns(CLOCK_REALTIME) / 1000);
  unsigned count = kMaxListed;
  const nvmlReturn_t result =
      forward(nvml.nvmlDeviceGetProcessUtilization, device, *scratch, &count, now_us - 1'000'000);
  if (result == NVML_ERROR_NOT_FOUND) count = 0;
  else if (result != NVML_SUCCESS) return false;
  part = {};
  bool ours = false;
  for (unsigned i = 0; i < std::min(count, kMaxListed); ++i) {
    const nvmlProcessUtilizationSample_t& sample = (*scratch)[i];
    if (!in_share(sample.pid)) continue;
    ours = true;
    part.gpu = std::min(100u, part.gpu + std::min(100u, sample.smUtil));
    part.memory = std::min(100u, part.memory + std::min(100u, sample.memUtil));
    part.encoder = std::min(100u, part.encoder + std::min(100u, sample.encUtil));
    part.decoder = std::min(100u, part.decoder + std::min(100u, sample.decUtil));
  }
  return ours || count == 0 || names_a_member(device);
}

// Takes the share's GPU time from the ledger. The ledger has none at the first look, such as nvidia-smi's; then uses
// NVML's figure. Returns false if neither has the share's part.
bool used_gpu(std::uint32_t index, nvmlDevice_t device, unsigned& percent) {
  UsedPart part;
  if (held_percent(index, percent)) return true;
  if (!sampled_part(device, part)) return false;
  percent = part.gpu;
  return true;
}

void put_part(nvmlDevice_t device, unsigned UsedPart::* engine, unsigned& percent) {
  if (UsedPart part; sampled_part(device, part)) percent = part.*engine;
}

template <typename Argument>
bool is_given(const Argument& argument) {
  if constexpr (std::is_pointer_v<Argument>) return argument != nullptr;
  else return true;
}

// Asks NVML about a GPU that is not hidden. If it is the share's and NVML filled in all that was given, show(index in
// the pages) replaces the card's values by the share's.
template <typename Show, typename Real, typename... Arguments>
nvmlReturn_t of_share(Show show, Real* const& ask, nvmlDevice_t device, Arguments... arguments) {
  if (is_hidden(device)) return NVML_ERROR_NOT_FOUND;
  const nvmlReturn_t result = forward(ask, device, arguments...);
  if (result != NVML_SUCCESS || !(is_given(arguments) && ...)) return result;
  if (const std::uint32_t index = nvml_device_index(device); index != kNoDevice) show(index);
  return result;
}

void put_value(nvmlValue_t& value, nvmlValueType_t type, unsigned percent) {
  if (type == NVML_VALUE_TYPE_DOUBLE) value.dVal = percent;
  else value.ullVal = percent;  // the narrower integers begin at the same place
}

}  // namespace

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  const auto show = [=](std::uint32_t index) {
    const MemoryView view = view_of(index, memory->total, memory->free);
    *memory = {view.total_bytes, view.free_bytes, view.total_bytes - view.free_bytes};
  };
  return of_share(show, nvml.nvmlDeviceGetMemoryInfo, device, memory);
}

// Memory reserved by the driver concerns the card: a share has no reserved part.
HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  const auto show = [=](std::uint32_t index) {
    const MemoryView view = view_of(index, memory->total, memory->free);
    *memory = {memory->version, view.total_bytes, 0, view.free_bytes, view.total_bytes - view.free_bytes};
  };
  return of_share(show, nvml.nvmlDeviceGetMemoryInfo_v2, device, memory);
}

#define HEADGATE_PROCESS_LIST(name, Entry, computes)                                        \
  HEADGATE_HOOK nvmlReturn_t name(nvmlDevice_t device, unsigned* infoCount, Entry* infos) { \
    return share_processes(nvml.name, device, infoCount, infos, computes);                  \
  }
#define HEADGATE_PROCESS_LISTS(name, computes)                     \
  HEADGATE_PROCESS_LIST(name, nvmlProcessInfo_v1_t, computes)      \
  HEADGATE_PROCESS_LIST(name##_v2, nvmlProcessInfo_v2_t, computes) \
  HEADGATE_PROCESS_LIST(name##_v3, nvmlProcessInfo_t, computes)
HEADGATE_PROCESS_LISTS(nvmlDeviceGetComputeRunningProcesses, true)
HEADGATE_PROCESS_LISTS(nvmlDeviceGetGraphicsRunningProcesses, false)
HEADGATE_PROCESS_LISTS(nvmlDeviceGetMPSComputeRunningProcesses, false)

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                           nvmlProcessUtilizationSample_t* utilization,
                                                           unsigned* processSamplesCount,
                                                           unsigned long long lastSeenTimeStamp) {
  const auto show = [=](std::uint32_t) {
    keep_ours(utilization, *processSamplesCount, [](const nvmlProcessUtilizationSample_t& one) { return one.pid; });
  };
  return of_share(show, nvml.nvmlDeviceGetProcessUtilization, device, utilization, processSamplesCount,
                  lastSeenTimeStamp);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                                 nvmlProcessesUtilizationInfo_t* procesesUtilInfo) {
  const auto show = [=](std::uint32_t) {
    if (procesesUtilInfo->procUtilArray != nullptr)
      keep_ours(procesesUtilInfo->procUtilArray, procesesUtilInfo->processSamplesCount,
                [](const nvmlProcessUtilizationInfo_v1_t& one) { return one.pid; });
  };
  return of_share(show, nvml.nvmlDeviceGetProcessesUtilizationInfo, device, procesesUtilInfo);
}

// If neither the ledger nor NVML tells the share's part, keeps the card's figure.
HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  const auto show = [=](std::uint32_t index) {
    UsedPart part;
    const bool sampled = sampled_part(device, part);
    if (sampled) utilization->memory = part.memory;
    unsigned held = 0;
    if (held_percent(index, held)) utilization->gpu = held;
    else if (sampled) utilization->gpu = part.gpu;
  };
  return of_share(show, nvml.nvmlDeviceGetUtilizationRates, device, utilization);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned* utilization,
                                                           unsigned* samplingPeriodUs) {
  const auto show = [=](std::uint32_t) { put_part(device, &UsedPart::encoder, *utilization); };
  return of_share(show, nvml.nvmlDeviceGetEncoderUtilization, device, utilization, samplingPeriodUs);
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned* utilization,
                                                           unsigned* samplingPeriodUs) {
  const auto show = [=](std::uint32_t) { put_part(device, &UsedPart::decoder, *utilization); };
  return of_share(show, nvml.nvmlDeviceGetDecoderUtilization, device, utilization, samplingPeriodUs);
}

// Nothing keeps the share's part of the past seconds, so each sample has its part now. Other samples (power, clocks)
// are the card's.
HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
                                                unsigned long long lastSeenTimeStamp, nvmlValueType_t* sampleValType,
                                                unsigned* sampleCount, nvmlSample_t* samples) {
  constexpr nvmlSamplingType_t kGpu = 1, kMemory = 2, kEncoder = 3, kDecoder = 4;
  const auto show = [=](std::uint32_t index) {
    UsedPart part;
    if (type < kGpu || type > kDecoder) return;
    if (type == kGpu ? !used_gpu(index, device, part.gpu) : !sampled_part(device, part)) return;
    const unsigned percent = type == kGpu       ? part.gpu
                             : type == kMemory  ? part.memory
                             : type == kEncoder ? part.encoder
                                                : part.decoder;
    for (unsigned i = 0; i < *sampleCount; ++i) put_value(samples[i].sampleValue, *sampleValType, percent);
  };
  return of_share(show, nvml.nvmlDeviceGetSamples, device, type, lastSeenTimeStamp, sampleValType, sampleCount,
                  samples);
}

// The driver's accounting has all users' processes. Those of the share that have ended are not known to be its own any
// more, so only those that run are told.
HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned* count, unsigned* pids) {
  if (is_hidden(device)) return NVML_ERROR_NOT_FOUND;
  if (count == nullptr || nvml_device_index(device) == kNoDevice)
    return forward(nvml.nvmlDeviceGetAccountingPids, device, count, pids);
  const bare::Scratch<unsigned[kMaxAccounted]> scratch;
  if (!scratch) return NVML_ERROR_OPERATING_SYSTEM;
  unsigned listed = kMaxAccounted;
  const nvmlReturn_t result = forward(nvml.nvmlDeviceGetAccountingPids, device, &listed, &(*scratch)[0]);
  if (result != NVML_SUCCESS) return result;
  keep_ours(&(*scratch)[0], listed, [](unsigned pid) { return pid; });
  const unsigned room = pids == nullptr ? 0 : *count;
  *count = listed;
  if (listed > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::copy_n(&(*scratch)[0], listed, pids);
  return NVML_SUCCESS;
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned pid,
                                                        nvmlAccountingStats_t* stats) {
  if (is_hidden(device)) return NVML_ERROR_NOT_FOUND;
  if (nvml_device_index(device) != kNoDevice && !in_share(pid)) return NVML_ERROR_NOT_FOUND;
  return forward(nvml.nvmlDeviceGetAccountingStats, device, pid, stats);
}
