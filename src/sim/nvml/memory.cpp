// Memory and the processes that hold it. A process is listed on a device while it has a context there.
#include <fstream>
#include <string>
#include <vector>

#include "sim/mig.hpp"
#include "sim/nvml/library.hpp"
#include "sim/process_identity.hpp"

namespace headgate::sim::nvml {
namespace {

constexpr unsigned kNoInstance = ~0U;  // GPU and compute instance without MIG
constexpr unsigned kMemoryVersion2 = sizeof(nvmlMemory_v2_t) | 2U << 24;

struct Held {
  std::uint64_t total, reserved, used;  // bytes
};

// A slice is always empty, because programs run on the whole GPU.
Held held_memory(const DeviceView& view, Slice slice) {
  const Profile& profile = view.profile();
  if (slice) return {mig_memory_bytes(profile, profile.mig[*slice]), 0, 0};
  return {profile.memory_bytes, profile.reserved_bytes, view.device().bytes};
}

// In a cgroup with a limit (driver r615): its memory in place of the device's, as far as NVIDIA's documents say.
void show_own_limit(const DeviceView& view, nvmlMemory_v2_t& memory) {
  const auto& fences = view.state().memory_fences[view.index()];
  if (std::ranges::all_of(fences, [](const MemoryFence& fence) { return fence.cgroup == 0; })) return;
  const Engine engine(view.mutable_state());
  const MemoryFence* const fence = engine.fence_of(own_cgroups(), view.index());
  if (fence == nullptr || fence->hard_bytes >= memory.total) return;
  memory.total = fence->hard_bytes;
  memory.used = engine.fenced_bytes(*fence, view.index());
  memory.free = std::min<unsigned long long>(memory.free, memory.total - std::min(memory.total, memory.used));
}

// The versions share the names of their fields.
template <typename Info>
void describe(const Account& account, Info& out) {
  out = {};
  out.pid = shown_pid(account);
  out.usedGpuMemory = account.bytes + account.slack_bytes + account.context_bytes;
  if constexpr (requires { out.gpuInstanceId; }) out.gpuInstanceId = out.computeInstanceId = kNoInstance;
}

enum class Whose { all, mps_clients, none };

bool is_mps_client(const DeviceView& view, const Account& account) {
  return view.state().processes[account.process].mps_percent != 0;
}

// An MPS client is also in the list of compute processes (nvidia-smi shows "M+C").
template <typename Info>
nvmlReturn_t processes(DeviceCall call, unsigned* count, Info* infos, Whose whose) {
  return on_device_or_slice(call, [&](const DeviceView& view, Slice slice) {
    if (count == nullptr || (*count > 0 && infos == nullptr)) return NVML_ERROR_INVALID_ARGUMENT;
    const unsigned room = *count;
    unsigned found = 0;
    for (const Account* account : slice || whose == Whose::none ? std::vector<const Account*>{} : listed_by_pid(view)) {
      if (whose == Whose::mps_clients && !is_mps_client(view, *account)) continue;
      if (found < room) describe(*account, infos[found]);
      ++found;
    }
    *count = found;
    return found <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
  });
}

std::string command_of(unsigned pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::string name;
  std::getline(file, name, '\0');
  return name;
}

}  // namespace

std::vector<const Account*> listed_by_pid(const DeviceView& view) {
  std::vector<const Account*> found;
  for (const Account& account : view.state().accounts) {
    if (account.used == 1 && account.device == view.index() && account.contexts > 0) found.push_back(&account);
  }
  std::ranges::sort(found, {}, [](const Account* account) { return shown_pid(*account); });
  return found;
}

nvmlProcessDetail_v1_t detail_of(const Account& account) {
  return {.pid = shown_pid(account),
          .usedGpuMemory = account.bytes + account.context_bytes,
          .gpuInstanceId = kNoInstance,
          .computeInstanceId = kNoInstance,
          .usedGpuCcProtectedMemory = 0};
}

std::string name_of(const Account& account) {
  const std::string command = command_of(shown_pid(account));
  return command.empty() ? account.comm : command;
}

extern "C" {

// As in the real NVML: version 1 counts reserved memory as used, version 2 reports it separately.
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  return on_device_or_slice({device, {memory}}, [&](const DeviceView& view, Slice slice) {
    const Held held = held_memory(view, slice);
    *memory = {.total = held.total, .free = held.total - held.reserved - held.used, .used = held.reserved + held.used};
  });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  return on_device_or_slice({device, {memory}}, [&](const DeviceView& view, Slice slice) {
    if (memory->version != kMemoryVersion2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const Held held = held_memory(view, slice);
    memory->total = held.total;
    memory->reserved = held.reserved;
    memory->used = held.used;
    memory->free = held.total - held.reserved - held.used;
    if (!slice) show_own_limit(view, *memory);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* bar1Memory) {
  return on_device_or_slice({device, {bar1Memory}}, [&](const DeviceView& view, Slice slice) {
    constexpr unsigned long long kMappedByTheDriver = 2ULL << 20;
    const Profile& profile = view.profile();
    const auto total = slice ? profile.bar1_bytes / kMigMemorySlices * profile.mig[*slice].memory : profile.bar1_bytes;
    const auto used = slice ? 0 : kMappedByTheDriver;
    *bar1Memory = {.bar1Total = total, .bar1Free = total - used, .bar1Used = used};
  });
}

#define SIM_PROCESS_LIST(name, Info, whose)                                  \
  nvmlReturn_t name(nvmlDevice_t device, unsigned* infoCount, Info* infos) { \
    return processes(device, infoCount, infos, whose);                       \
  }
#define SIM_PROCESS_LISTS(name, whose)                     \
  SIM_PROCESS_LIST(name, nvmlProcessInfo_v1_t, whose)      \
  SIM_PROCESS_LIST(name##_v2, nvmlProcessInfo_v2_t, whose) \
  SIM_PROCESS_LIST(name##_v3, nvmlProcessInfo_t, whose)
SIM_PROCESS_LISTS(nvmlDeviceGetComputeRunningProcesses, Whose::all)
SIM_PROCESS_LISTS(nvmlDeviceGetGraphicsRunningProcesses, Whose::none)
SIM_PROCESS_LISTS(nvmlDeviceGetMPSComputeRunningProcesses, Whose::mps_clients)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t* plist) {
  return on_device({device, {plist}}, [&](const DeviceView& view) {
    if (plist->version != kProcessDetailListVersion) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (plist->mode > 2) return NVML_ERROR_INVALID_ARGUMENT;
    std::vector<nvmlProcessDetail_v1_t> rows;
    constexpr unsigned kCompute = 0, kMps = 2;  // nvmlProcessMode_t
    for (const Account* account : listed_by_pid(view)) {
      if (plist->mode == kCompute || (plist->mode == kMps && is_mps_client(view, *account)))
        rows.push_back(detail_of(*account));
    }
    return give_list(rows, &plist->numProcArrayEntries, plist->procArray);
  });
}

// Returns argv[0] from /proc if available, else the node's name for the process.
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  return answer([&](Node& node) {
    if (name == nullptr || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
    std::string found = command_of(pid);
    if (found.empty()) {
      const Node::Locked locked(node);
      for (const Account& account : node.state().accounts) {
        if (account.used == 1 && shown_pid(account) == pid) found = account.comm;
      }
    }
    if (found.empty()) return NVML_ERROR_NOT_FOUND;
    found.resize(std::min<std::size_t>(found.size(), length - 1));
    return give_text(found, name, length);
  });
}

}  // extern "C"
}  // namespace headgate::sim::nvml
