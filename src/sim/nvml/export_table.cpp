// The table behind nvmlInternalGetExportTable. nvidia-smi uses it for functions that NVML does not declare; without it
// nvidia-smi 535 reports a version mismatch and ends. The first word is the table's size. An empty slot means "function
// not found". The slots were found by watching which ones nvidia-smi 535 calls, and how (docs/simulator.md); 580 uses
// the same.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "sim/nvml/library.hpp"
#include "sim/nvml/processes.hpp"
#include "sim/nvml/wide.hpp"

namespace headgate::sim::nvml {
namespace {

using abi::nvmlDevice_t;
using abi::nvmlReturn_t;

constexpr std::size_t kSlots = 245;  // of 535.261.03
// These slots are also public functions.
constexpr std::size_t kDisplayActive = 31, kPowerConstraints = 46, kPowerDefault = 47, kSetPower = 48,
                      kClockReasons = 57, kEveryClockReason = 58, kEnforcedPower = 108, kBoardPart = 149;
constexpr std::size_t kAncestorByBusId = 23, kFullFeatures = 72;
constexpr std::size_t kHostLinkGeneration = 230;

using NamedProcess = abi::NvmlExportedProcess;

// Rows in order of pid, because nvidia-smi merges the lists. It omits a row without a name.
nvmlReturn_t named_compute_list(nvmlDevice_t device, unsigned* count, NamedProcess* rows) {
  return on_device("nvmlInternalGetExportTable", device, [&](const DeviceView& view) {
    if (count == nullptr || rows == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
    const std::vector<const Account*> found = listed_by_pid(view);
    const unsigned room = *count;
    *count = static_cast<unsigned>(found.size());
    if (found.size() > room) return abi::NVML_ERROR_INSUFFICIENT_SIZE;
    for (const Account* account : found) {
      NamedProcess& row = *rows++;
      row.detail = detail_of(*account);
      const std::string name = name_of(*account);
      std::memset(row.name, 0, sizeof row.name);
      name.copy(row.name, sizeof row.name - 1);
    }
    return abi::NVML_SUCCESS;
  });
}

nvmlReturn_t no_rows(nvmlDevice_t device, unsigned* count, NamedProcess*) {
  return value_of("nvmlInternalGetExportTable", device, count, [](const DeviceView&) { return 0U; });
}

// nvidia-smi sums a process's rows and divides by the number of all rows.
nvmlReturn_t monitored(nvmlDevice_t device, unsigned long long since_us, unsigned*, unsigned* count,
                       abi::NvmlExportedSample* rows) {
  return on_device("nvmlInternalGetExportTable", device, [&](const DeviceView& view) {
    if (count == nullptr || rows == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
    const auto samples = samples_since(view, since_us);
    const unsigned told = std::min(*count, static_cast<unsigned>(samples.size()));
    for (unsigned i = 0; i < told; ++i) {
      rows[i] = {};
      rows[i].timeStamp = samples[i].timeStamp;
      for (auto& engine : rows[i].engines) engine.pid = samples[i].pid;
      rows[i].engines[0].utilization = samples[i].smUtil * told;
    }
    *count = told;
    return told == 0 ? abi::NVML_ERROR_NOT_FOUND : abi::NVML_SUCCESS;
  });
}

// Returns 1: the card has server features. Without them nvidia-smi refuses `pmon`, `dmon` and settings.
nvmlReturn_t full_features(nvmlDevice_t device, unsigned* has) {
  return value_of("nvmlInternalGetExportTable", device, has, [](const DeviceView&) { return 1U; });
}

nvmlReturn_t handle_by_index(unsigned index, nvmlDevice_t* device, unsigned /* flags; nvidia-smi passes 0x22 */) {
  return abi::nvmlDeviceGetHandleByIndex_v2(index, device);
}

// Returns the common ancestor of two PCI addresses, in the order of `topo -m`'s legend, nearest first: PIX, PXB, PHB,
// NODE, SYS. This node is one NUMA node.
nvmlReturn_t ancestor_by_bus_id(const char* one, const char* other, unsigned* level) {
  nvmlDevice_t first = nullptr, second = nullptr;
  if (const auto result = abi::nvmlDeviceGetHandleByPciBusId_v2(one, &first); result != abi::NVML_SUCCESS)
    return result;
  if (const auto result = abi::nvmlDeviceGetHandleByPciBusId_v2(other, &second); result != abi::NVML_SUCCESS)
    return result;
  if (level == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
  constexpr unsigned kNode = 3;
  *level = kNode;
  return abi::NVML_SUCCESS;
}

nvmlReturn_t list_policies(nvmlDevice_t device, abi::NvmlExportedPolicies* policies) {
  return on_device("nvmlInternalGetExportTable", device, [&](const DeviceView& view) {
    if (policies == nullptr) return abi::NVML_ERROR_INVALID_ARGUMENT;
    policies->count = 1;
    policies->rows[0] = {.policy = 0, .value = view.settings().time_slice};
    return abi::NVML_SUCCESS;
  });
}

using Slot = void (*)();
template <typename Function>
Slot slot(Function* function) {
  return reinterpret_cast<Slot>(function);
}

struct Table {
  std::size_t size_bytes = sizeof(Table);
  std::array<Slot, kSlots - 1> slots{};
  Table() {
    slots[kDisplayActive - 1] = slot(&abi::nvmlDeviceGetDisplayActive);
    slots[kPowerConstraints - 1] = slot(&abi::nvmlDeviceGetPowerManagementLimitConstraints);
    slots[kPowerDefault - 1] = slot(&abi::nvmlDeviceGetPowerManagementDefaultLimit);
    slots[kSetPower - 1] = slot(&abi::nvmlDeviceSetPowerManagementLimit);
    slots[kClockReasons - 1] = slot(&abi::nvmlDeviceGetCurrentClocksThrottleReasons);
    slots[kEveryClockReason - 1] = slot(&abi::nvmlDeviceGetSupportedClocksThrottleReasons);
    slots[kEnforcedPower - 1] = slot(&abi::nvmlDeviceGetEnforcedPowerLimit);
    slots[kBoardPart - 1] = slot(&abi::nvmlDeviceGetBoardPartNumber);
    slots[kAncestorByBusId - 1] = slot(&ancestor_by_bus_id);
    slots[kFullFeatures - 1] = slot(&full_features);
    slots[abi::kNvmlExportedHandleByIndex - 1] = slot(&handle_by_index);
    slots[abi::kNvmlExportedSetPolicy - 1] = slot(&set_policy);
    slots[abi::kNvmlExportedListPolicies - 1] = slot(&list_policies);
    slots[abi::kNvmlExportedSamples - 1] = slot(&monitored);
    slots[abi::kNvmlExportedLists - 1] = slot(&named_compute_list);
    slots[abi::kNvmlExportedLists] = slot(&no_rows);
    slots[abi::kNvmlExportedLists + 1] = slot(&no_rows);
    slots[kHostLinkGeneration - 1] = slot(&abi::nvmlDeviceGetMaxPcieLinkGeneration);
  }
};

}  // namespace
}  // namespace headgate::sim::nvml

// Works before nvmlInit too, because nvidia-smi calls it in any order.
extern "C" headgate::abi::nvmlReturn_t headgate::abi::nvmlInternalGetExportTable(const void** ppExportTable,
                                                                                 const void* pExportTableId) {
  using namespace headgate::sim::nvml;
  if (const std::uint32_t code = headgate::sim::fault("nvmlInternalGetExportTable"))
    return static_cast<nvmlReturn_t>(code);
  if (ppExportTable == nullptr || pExportTableId == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (std::memcmp(pExportTableId, kNvmlExportTableId, sizeof kNvmlExportTableId) != 0) return NVML_ERROR_NOT_FOUND;
  static const Table table;
  *ppExportTable = &table;
  return NVML_SUCCESS;
}
