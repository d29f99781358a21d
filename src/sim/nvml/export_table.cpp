// The table behind nvmlInternalGetExportTable. nvidia-smi uses it for functions that NVML does not declare; without it
// nvidia-smi 535 reports a version mismatch and ends. The first word is the table's size. An empty slot means "function
// not found". The slots were found by watching which ones nvidia-smi 535 calls, and how (docs/simulator.md); 580 uses
// the same.
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "sim/nvml/library.hpp"

namespace headgate::sim::nvml {
namespace {

constexpr std::size_t kSlots = 245;  // of 535.261.03
using NamedProcess = NvmlExportedProcess;

// Rules of faults know these functions by one name.
DeviceCall table_call(nvmlDevice_t device, std::initializer_list<const void*> needed) {
  return {device, needed, "nvmlInternalGetExportTable"};
}

// Rows in order of pid, because nvidia-smi merges the lists. It omits a row without a name.
nvmlReturn_t named_compute_list(nvmlDevice_t device, unsigned* count, NamedProcess* rows) {
  return on_device(table_call(device, {count, rows}), [&](const DeviceView& view) {
    const std::vector<const Account*> found = listed_by_pid(view);
    const unsigned room = *count;
    *count = static_cast<unsigned>(found.size());
    if (found.size() > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (const Account* account : found) {
      NamedProcess& row = *rows++;
      row.detail = detail_of(*account);
      const std::string name = name_of(*account);
      std::memset(row.name, 0, sizeof row.name);
      name.copy(row.name, sizeof row.name - 1);
    }
    return NVML_SUCCESS;
  });
}

nvmlReturn_t no_rows(nvmlDevice_t device, unsigned* count, NamedProcess*) {
  return value_of(table_call(device, {}), count, [](const DeviceView&) { return 0U; });
}

// nvidia-smi sums a process's rows and divides by the number of all rows.
nvmlReturn_t monitored(nvmlDevice_t device, unsigned long long since_us, unsigned*, unsigned* count,
                       NvmlExportedSample* rows) {
  return on_device(table_call(device, {count, rows}), [&](const DeviceView& view) {
    const auto samples = samples_since(view, since_us);
    const unsigned told = std::min(*count, static_cast<unsigned>(samples.size()));
    for (unsigned i = 0; i < told; ++i) {
      rows[i] = {};
      rows[i].timeStamp = samples[i].timeStamp;
      for (auto& engine : rows[i].engines) engine.pid = samples[i].pid;
      rows[i].engines[0].utilization = samples[i].smUtil * told;
    }
    *count = told;
    return told == 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
  });
}

// Returns 1: the card has server features. Without them nvidia-smi refuses `pmon`, `dmon` and settings.
nvmlReturn_t full_features(nvmlDevice_t device, unsigned* has) {
  return value_of(table_call(device, {}), has, [](const DeviceView&) { return 1U; });
}

nvmlReturn_t split_pci(const char* text, unsigned* domain, unsigned* bus, unsigned* device, unsigned* function) {
  PciAddress address;
  if (!domain || !bus || !device || !function || !split_pci_address(text, address)) return NVML_ERROR_INVALID_ARGUMENT;
  *domain = address.domain, *bus = address.bus, *device = address.device, *function = address.function;
  return NVML_SUCCESS;
}

// A GPU's PCI address, which nvidia-smi compares with that of `-i`.
nvmlReturn_t pci_by_index(unsigned index, unsigned* domain, unsigned* bus, unsigned* device) {
  const auto tell = [=](Node& node) {
    if (!domain || !bus || !device || index >= node.profile().count) return NVML_ERROR_INVALID_ARGUMENT;
    *domain = node.profile().pci_domain, *bus = pci_bus(node.profile(), index), *device = 0;
    return NVML_SUCCESS;
  };
  return answer(tell, "nvmlInternalGetExportTable");
}

// The same as text, for nvidia-smi's messages.
nvmlReturn_t pci_text_by_index(unsigned index, char* text, unsigned bytes) {
  const auto tell = [=](Node& node) {
    if (index >= node.profile().count) return NVML_ERROR_INVALID_ARGUMENT;
    return give_text(pci_bus_id_legacy(node.profile(), index).data(), text, bytes);
  };
  return answer(tell, "nvmlInternalGetExportTable");
}

// Returns the common ancestor of two PCI addresses, in the order of `topo -m`'s legend, nearest first: PIX, PXB, PHB,
// NODE, SYS. This node is one NUMA node.
nvmlReturn_t ancestor_by_bus_id(const char* one, const char* other, unsigned* level) {
  nvmlDevice_t first = nullptr, second = nullptr;
  if (const auto result = nvmlDeviceGetHandleByPciBusId_v2(one, &first); result != NVML_SUCCESS) return result;
  if (const auto result = nvmlDeviceGetHandleByPciBusId_v2(other, &second); result != NVML_SUCCESS) return result;
  if (level == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  constexpr unsigned kNode = 3;
  *level = kNode;
  return NVML_SUCCESS;
}

nvmlReturn_t list_policies(nvmlDevice_t device, NvmlExportedPolicies* policies) {
  return on_device(table_call(device, {policies}), [&](const DeviceView& view) {
    policies->count = 1;
    policies->rows[0] = {.policy = 0, .value = view.settings().time_slice};
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
    const std::pair<std::size_t, Slot> known[] = {// These are also public functions.
                                                  {31, slot(&nvmlDeviceGetDisplayActive)},
                                                  {46, slot(&nvmlDeviceGetPowerManagementLimitConstraints)},
                                                  {47, slot(&nvmlDeviceGetPowerManagementDefaultLimit)},
                                                  {48, slot(&nvmlDeviceSetPowerManagementLimit)},
                                                  {57, slot(&nvmlDeviceGetCurrentClocksThrottleReasons)},
                                                  {58, slot(&nvmlDeviceGetSupportedClocksThrottleReasons)},
                                                  {108, slot(&nvmlDeviceGetEnforcedPowerLimit)},
                                                  {149, slot(&nvmlDeviceGetBoardPartNumber)},
                                                  {230, slot(&nvmlDeviceGetMaxPcieLinkGeneration)},
                                                  {23, slot(&ancestor_by_bus_id)},
                                                  {72, slot(&full_features)},
                                                  {kNvmlExportedSplitPci, slot(&split_pci)},
                                                  {kNvmlExportedPciByIndex, slot(&pci_by_index)},
                                                  {kNvmlExportedPciTextByIndex, slot(&pci_text_by_index)},
                                                  {kNvmlExportedSetPolicy, slot(&set_policy)},
                                                  {kNvmlExportedListPolicies, slot(&list_policies)},
                                                  {kNvmlExportedSamples, slot(&monitored)},
                                                  {kNvmlExportedLists, slot(&named_compute_list)},
                                                  {kNvmlExportedLists + 1, slot(&no_rows)},
                                                  {kNvmlExportedLists + 2, slot(&no_rows)}};
    for (const auto& [number, function] : known) slots[number - 1] = function;
  }
};

}  // namespace

// Works before nvmlInit too, because nvidia-smi calls it in any order.
extern "C" nvmlReturn_t nvmlInternalGetExportTable(const void** ppExportTable, const void* pExportTableId) {
  if (const std::uint32_t code = fault("nvmlInternalGetExportTable")) return static_cast<nvmlReturn_t>(code);
  if (ppExportTable == nullptr || pExportTableId == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (std::memcmp(pExportTableId, kNvmlExportTableId, sizeof kNvmlExportTableId) != 0) return NVML_ERROR_NOT_FOUND;
  static const Table table;
  *ppExportTable = &table;
  return NVML_SUCCESS;
}

}  // namespace headgate::sim::nvml
