// Looks up functions by name and versions, and translates error codes to text.
#include <algorithm>
#include <string_view>

#include "guest/abi/names.hpp"
#include "sim/driver/proc_address.hpp"

// Declared as functions of unknown type because only their addresses are used. The library defines each of them, some
// as stubs.
namespace entries {
#define CU_NAME(name, kind, since) extern "C" void name();
#define CU_FN(name, kind, since, parameters, arguments) extern "C" void name();
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
#define CU_NAME(name, kind, since) {#name, entries::name},
#define CU_FN(name, kind, since, parameters, arguments) {#name, entries::name},
#include "guest/abi/cuda_table.def"
};

}  // namespace

namespace headgate::sim::driver {

const void* entry_address(std::string_view name) {
  const auto* found = std::ranges::lower_bound(kEntries, name, {}, &Entry::name);
  return found != std::end(kEntries) && found->name == name ? reinterpret_cast<const void*>(found->address) : nullptr;
}

std::vector<const char*> entries_newer_than(int driver_version) {
  std::vector<const char*> newer;
  for (const abi::Name& row : abi::cuda_names()) {
    if (row.since > driver_version) newer.push_back(row.name.data());
  }
  return newer;
}

// Returns the newest variant that both the caller's version and this driver's CUDA version include.
ProcAddress find_proc_address(std::string_view name, int version, bool per_thread, int driver_version) {
  using namespace abi;
  const Name* best = nullptr;
  bool versioned = false, known = false, has_per_thread = false;
  const auto is_variant = [&](const Name& row) { return row.since != 0 && base_of(row.name) == name; };
  for (const Name& row : cuda_names_from(name))
    has_per_thread |= is_variant(row) && is_per_thread(row.name) && row.since <= driver_version;
  for (const Name& row : cuda_names_from(name)) {
    if (!is_variant(row)) continue;
    versioned = true;
    if (row.since > driver_version || is_per_thread(row.name) != (per_thread && has_per_thread)) continue;
    known = true;
    if (row.since <= version && (!best || row.since > best->since)) best = &row;
  }
  if (best && best->name == "cuMemFree_v2")
    return {reinterpret_cast<const void*>(&free_without_symbol), CU_GET_PROC_ADDRESS_SUCCESS};
  if (best) return {entry_address(best->name), CU_GET_PROC_ADDRESS_SUCCESS};
  if (known) return {nullptr, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT};
  // A name without a version history is returned exactly as exported.
  const Name* exported = versioned ? nullptr : find_cuda(name);
  const void* exact = exported && exported->since <= driver_version ? entry_address(name) : nullptr;
  return {exact, exact ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND};
}

}  // namespace headgate::sim::driver
