// Looks up functions by name and versions, and translates error codes to text.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "sim/driver/proc_address.hpp"

// Declared as functions of unknown type because only their addresses are used. The library defines each of them, some
// as stubs.
namespace entries {
#define CU_NAME(name, kind) extern "C" void name();
#define CU_FN(name, kind, parameters, arguments) extern "C" void name();
#include "guest/abi/cuda_table.def"
}  // namespace entries

namespace {

namespace abi = headgate::abi;

struct Entry {
  std::string_view name;
  void (*address)();
};

// A lookup of cuMemFree returns this entry, which no symbol has. Some entries of a real driver are like that too.
abi::CUresult free_without_symbol(abi::CUdeviceptr address) {
  return reinterpret_cast<abi::cuMemFree_v2_t*>(entries::cuMemFree_v2)(address);
}

// Sorted by name, like the table. Without constinit, gcc emits a thousand stores that run at each start.
constinit const Entry kEntries[] = {
#define CU_NAME(name, kind) {#name, entries::name},
#define CU_FN(name, kind, parameters, arguments) {#name, entries::name},
#include "guest/abi/cuda_table.def"
};

struct Versioned {
  std::string_view name;
  int since;
  bool per_thread;
  std::string_view entry;
};

constinit const Versioned kVersioned[] = {
#define PROC(name, since, per_thread, entry) {#name, since, per_thread != 0, #entry},
#include "sim/driver/proc_versions.def"
};

// Returns the CUDA version that introduced an entry; 0 if every simulated driver has it.
int since(std::string_view entry) {
  int first = 0;
  for (const Versioned& row : kVersioned) {
    if (row.entry == entry && (first == 0 || row.since < first)) first = row.since;
  }
  return first;
}

}  // namespace

namespace headgate::sim::driver {

const void* entry_address(std::string_view name) {
  const auto* found = std::ranges::lower_bound(kEntries, name, {}, &Entry::name);
  return found != std::end(kEntries) && found->name == name ? reinterpret_cast<const void*>(found->address) : nullptr;
}

std::vector<const char*> entries_newer_than(int driver_version) {
  std::vector<const char*> newer;
  for (const Versioned& row : kVersioned) {
    if (row.since > driver_version && since(row.entry) > driver_version) newer.push_back(row.entry.data());
  }
  return newer;
}

// Returns the newest variant that both the caller's version and this driver's CUDA version include.
ProcAddress find_proc_address(std::string_view name, int version, bool per_thread, int driver_version) {
  const Versioned* best = nullptr;
  bool known = false, has_per_thread = false;
  const auto [first, last] = std::ranges::equal_range(kVersioned, name, {}, &Versioned::name);
  for (const auto* row = first; row != last; ++row) has_per_thread |= row->per_thread && row->since <= driver_version;
  for (const auto* row = first; row != last; ++row) {
    if (row->since > driver_version || row->per_thread != (per_thread && has_per_thread)) continue;
    known = true;
    if (row->since <= version && (!best || row->since > best->since)) best = row;
  }
  using namespace abi;
  if (best && best->entry == "cuMemFree_v2")
    return {reinterpret_cast<const void*>(&free_without_symbol), CU_GET_PROC_ADDRESS_SUCCESS};
  if (best) return {entry_address(best->entry), CU_GET_PROC_ADDRESS_SUCCESS};
  if (known) return {nullptr, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT};
  // A name without a version history is returned exactly as exported.
  const void* exact = first == last && since(name) <= driver_version ? entry_address(name) : nullptr;
  return {exact, exact ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND};
}

}  // namespace headgate::sim::driver
