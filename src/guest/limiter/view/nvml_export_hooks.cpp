// Calls to NVML's process lists that return more than pid and size: nvmlDeviceGetRunningProcessDetailList, and the
// private table that nvidia-smi uses, also for PCI addresses. Without these hooks a share's nvidia-smi would show other
// shares' programs.
#include <algorithm>
#include <cstring>

#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/shown_gpus.hpp"
#include "guest/limiter/view/members.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

constexpr std::size_t kMaxTableSlots = 512;

// A copy of the driver's table. Racing threads store the same words.
struct Copy {
  const void* words[kMaxTableSlots];  // the first is the size in bytes
  NvmlExportedProcessList* lists[kNvmlExportedListCount];
  NvmlExportedSamples* samples;
  NvmlExportedPciByIndex* pci_by_index;
  NvmlExportedPciTextByIndex* pci_text_by_index;
};
Copy copy;

template <unsigned list>
nvmlReturn_t share_list(nvmlDevice_t device, unsigned* count, NvmlExportedProcess* rows) {
  if (is_hidden(device)) return NVML_ERROR_NOT_FOUND;
  const nvmlReturn_t result = copy.lists[list](device, count, rows);
  if (result != NVML_SUCCESS || count == nullptr || rows == nullptr) return result;
  if (nvml_device_index(device) == kNoDevice) return result;
  keep_ours(rows, *count, [](const NvmlExportedProcess& row) { return row.detail.pid; });
  return result;
}

nvmlReturn_t share_samples(nvmlDevice_t device, unsigned long long since_us, unsigned* type, unsigned* count,
                           NvmlExportedSample* rows) {
  if (is_hidden(device)) return NVML_ERROR_NOT_FOUND;
  const nvmlReturn_t result = copy.samples(device, since_us, type, count, rows);
  if (result != NVML_SUCCESS || count == nullptr || rows == nullptr) return result;
  if (nvml_device_index(device) == kNoDevice) return result;
  // Sums are divided by the number of rows, so it stays.
  for (unsigned i = 0; i < *count; ++i) {
    for (auto& engine : rows[i].engines) {
      if (engine.pid != ~0u && !in_share(engine.pid)) engine.pid = ~0u;
    }
  }
  return result;
}

template <typename ByIndex, typename... Out>
nvmlReturn_t by_shown_index(ByIndex* by_index, unsigned index, Out... out) {
  const unsigned shown = shown_gpus();
  if (shown == 0) return by_index(index, out...);
  return index < shown ? by_index(driver_number(index), out...) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t shown_pci(unsigned index, unsigned* domain, unsigned* bus, unsigned* device) {
  return by_shown_index(copy.pci_by_index, index, domain, bus, device);
}

nvmlReturn_t shown_pci_text(unsigned index, char* text, unsigned bytes) {
  return by_shown_index(copy.pci_text_by_index, index, text, bytes);
}

void put(const void*& word, const void* value) { __atomic_store_n(&word, value, __ATOMIC_RELAXED); }

// Saves the driver's function in `original` and puts ours into its slot, if the table has one.
template <typename Function>
void replace(const void* const* table, std::size_t words, std::size_t slot, Function*& original, Function* ours) {
  if (slot >= words || table[slot] == nullptr) return;
  original = reinterpret_cast<Function*>(const_cast<void*>(table[slot]));
  put(copy.words[slot], reinterpret_cast<const void*>(ours));
}

bool is_replaced(std::size_t slot) {
  return slot == kNvmlExportedSamples || slot == kNvmlExportedPciByIndex || slot == kNvmlExportedPciTextByIndex ||
         (slot >= kNvmlExportedLists && slot < kNvmlExportedLists + kNvmlExportedListCount);
}

// A table longer than any known one is cut: the caller treats slots beyond its size as missing.
const void* filtered(const void* const* table) {
  std::size_t bytes = 0;
  std::memcpy(&bytes, table, sizeof bytes);
  const std::size_t words = std::min(bytes / sizeof(void*), kMaxTableSlots);
  for (std::size_t i = 1; i < words; ++i) {
    if (!is_replaced(i)) put(copy.words[i], table[i]);
  }
  replace(table, words, kNvmlExportedLists, copy.lists[0], &share_list<0>);
  replace(table, words, kNvmlExportedLists + 1, copy.lists[1], &share_list<1>);
  replace(table, words, kNvmlExportedLists + 2, copy.lists[2], &share_list<2>);
  replace(table, words, kNvmlExportedSamples, copy.samples, &share_samples);
  replace(table, words, kNvmlExportedPciByIndex, copy.pci_by_index, &shown_pci);
  replace(table, words, kNvmlExportedPciTextByIndex, copy.pci_text_by_index, &shown_pci_text);
  put(copy.words[0], reinterpret_cast<const void*>(words * sizeof(void*)));
  return copy.words;
}

}  // namespace

HEADGATE_HOOK nvmlReturn_t nvmlInternalGetExportTable(const void** ppExportTable, const void* pExportTableId) {
  const nvmlReturn_t result = forward(nvml.nvmlInternalGetExportTable, ppExportTable, pExportTableId);
  if (result != NVML_SUCCESS || ppExportTable == nullptr || *ppExportTable == nullptr) return result;
  if (session.membership.load(std::memory_order_acquire) == Membership::none) return result;
  if (std::memcmp(pExportTableId, kNvmlExportTableId, sizeof kNvmlExportTableId) == 0)
    *ppExportTable = filtered(static_cast<const void* const*>(*ppExportTable));
  return result;
}

HEADGATE_HOOK nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t* plist) {
  if (is_hidden(device)) return NVML_ERROR_NOT_FOUND;
  const nvmlReturn_t result = forward(nvml.nvmlDeviceGetRunningProcessDetailList, device, plist);
  if (result != NVML_SUCCESS || plist == nullptr || plist->procArray == nullptr) return result;
  if (nvml_device_index(device) == kNoDevice) return result;
  keep_ours(plist->procArray, plist->numProcArrayEntries, [](const nvmlProcessDetail_v1_t& row) { return row.pid; });
  return result;
}
