#include "observe/driver_memory.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "nvml/cuda_total.hpp"

namespace headgate::observe {
namespace {

using namespace abi;
using nvml::ok;

CardMemory read_card(const nvml::Library& nvml, nvmlDevice_t device, const std::string& uuid) {
  nvmlMemory_v2_t v2{};
  v2.version = static_cast<unsigned>(sizeof v2) | 2u << 24;
  if (nvml::call(nvml->nvmlDeviceGetMemoryInfo_v2, device, &v2))
    return {.total_bytes = v2.total, .used_bytes = v2.used, .free_bytes = v2.free, .reserved_bytes = v2.reserved};
  nvmlMemory_t v1{};
  if (const nvmlReturn_t result = nvml->nvmlDeviceGetMemoryInfo(device, &v1); !ok(result)) {
    CardMemory card;
    if (result == NVML_ERROR_NOT_SUPPORTED) card.total_bytes = nvml::cuda_total_bytes(uuid, nvml.path()).value_or(0);
    card.free_bytes = card.total_bytes;
    card.only_total = true;
    return card;
  }
  return {.total_bytes = v1.total, .used_bytes = v1.used, .free_bytes = v1.free};
}

using ListCall = nvmlReturn_t(nvmlDevice_t, unsigned*, nvmlProcessInfo_t*);

// Adds one of the driver's lists to `out`; returns false if the driver does not answer.
bool read_list(ListCall* ask, nvmlDevice_t device, const std::string& uuid, bool mps, std::vector<DriverProcess>& out) {
  if (ask == nullptr) return false;
  const auto rows = nvml::read_rows<nvmlProcessInfo_t>(
      128, [&](nvmlProcessInfo_t* room, unsigned* count) { return ask(device, count, room); });
  if (!rows) return false;
  for (const nvmlProcessInfo_t& row : *rows) {
    std::optional<std::uint64_t> bytes = row.usedGpuMemory;
    if (row.usedGpuMemory == ~0ull) bytes.reset();  // NVML_VALUE_NOT_AVAILABLE
    // A process that computes and draws is in both lists, with the same figure.
    const auto known = std::ranges::find(out, row.pid, &DriverProcess::pid);
    if (known == out.end()) {
      out.push_back({.uuid = uuid, .pid = row.pid, .bytes = bytes, .mps = mps});
      continue;
    }
    known->mps |= mps;
    known->bytes = std::max(known->bytes, bytes);
  }
  return true;
}

// The list of compute processes decides; the others may be missing.
bool read_lists(const nvml::Library& nvml, nvmlDevice_t device, const std::string& uuid,
                std::vector<DriverProcess>& all) {
  const bool answered = read_list(nvml->nvmlDeviceGetComputeRunningProcesses_v3, device, uuid, false, all);
  read_list(nvml->nvmlDeviceGetMPSComputeRunningProcesses_v3, device, uuid, true, all);
  read_list(nvml->nvmlDeviceGetGraphicsRunningProcesses_v3, device, uuid, false, all);
  return answered;
}

// A driver may list a process for a while after its end, even while it is a zombie.
bool has_ended(std::uint32_t pid) {
  if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return true;
  // Reads the first thread's: for /proc/PID/stat the kernel sums up the times of all threads, however many.
  const std::string number = std::to_string(pid);
  std::ifstream file("/proc/" + number + "/task/" + number + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != text.npos && name_end + 2 < text.size() &&
         (text[name_end + 2] == 'Z' || text[name_end + 2] == 'X');
}

// Returns what the living hold, by the smaller of two lists; null if a list does not say.
std::optional<std::uint64_t> least_held(const std::vector<DriverProcess>& before,
                                        const std::vector<DriverProcess>& after) {
  std::uint64_t sum = 0;
  for (const DriverProcess& process : after) {
    const auto earlier = std::ranges::find(before, process.pid, &DriverProcess::pid);
    if (!process.bytes || (earlier != before.end() && !earlier->bytes)) return std::nullopt;
    if (earlier != before.end() && !has_ended(process.pid)) sum += std::min(*earlier->bytes, *process.bytes);
  }
  return sum;
}

}  // namespace

std::optional<std::uint64_t> DriverMemory::bytes_of(const std::string& uuid, std::uint32_t pid) const {
  const auto card = cards.find(uuid);
  if (card == cards.end() || !card->second.lists_processes) return std::nullopt;
  const DriverProcess* const process = process_on(uuid, pid);
  return process == nullptr ? 0 : process->bytes;
}

const DriverProcess* DriverMemory::process_on(const std::string& uuid, std::uint32_t pid) const {
  for (const DriverProcess& process : processes) {
    if (process.pid == pid && process.uuid == uuid) return &process;
  }
  return nullptr;
}

std::optional<std::uint64_t> DriverMemory::unattributed_on(const std::string& uuid) const {
  const auto card = cards.find(uuid);
  return card == cards.end() ? std::nullopt : card->second.unattributed_bytes;
}

void read_memory(const nvml::Library& nvml, nvmlDevice_t device, const std::string& uuid, DriverMemory& out) {
  CardMemory card;
  std::vector<DriverProcess> lists[3];
  std::optional<std::uint64_t> most = 0;
  bool listed = read_lists(nvml, device, uuid, lists[0]);
  // Lists before and after the card's figure bound it, except for memory that was freed and taken again between them.
  // That is unlikely to happen twice, so measure twice and take the larger bound.
  for (int i = 0; i < 2; ++i) {
    card = read_card(nvml, device, uuid);
    listed = read_lists(nvml, device, uuid, lists[i + 1]) && listed;
    const auto held = least_held(lists[i], lists[i + 1]);
    if (!held || !most) most.reset();
    else most = std::max(*most, card.used_bytes - std::min(card.used_bytes, *held));
  }
  card.lists_processes = listed;
  if (card.only_total) {
    for (const DriverProcess& process : lists[2]) card.used_bytes += process.bytes.value_or(0);
    card.used_bytes = std::min(card.used_bytes, card.total_bytes);
    card.free_bytes = card.total_bytes - card.used_bytes;
  } else if (listed) {
    card.unattributed_bytes = most;
  }
  if (card.total_bytes != 0) out.cards[uuid] = card;
  out.processes.insert(out.processes.end(), std::make_move_iterator(lists[2].begin()),
                       std::make_move_iterator(lists[2].end()));
}

Result<DriverMemory> read_memory(const nvml::Library& nvml) {
  unsigned count = 0;
  if (const auto result = nvml->nvmlDeviceGetCount_v2(&count); !ok(result))
    return fail(ErrorCode::unreachable, "the NVIDIA driver does not count its GPUs: " + nvml::words(result));
  DriverMemory memory;
  for (unsigned index = 0; index < count; ++index) {
    nvmlDevice_t device = nullptr;
    if (!ok(nvml->nvmlDeviceGetHandleByIndex_v2(index, &device))) continue;
    if (const auto uuid = nvml::text_of(nvml->nvmlDeviceGetUUID, device); !uuid.empty())
      read_memory(nvml, device, uuid, memory);
  }
  return memory;
}

}  // namespace headgate::observe
