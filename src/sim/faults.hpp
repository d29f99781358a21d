// Fault injection at any function of the simulated driver and NVML. The grammar is in fault_rules.hpp.
//
// Rules come from the environment (HEADGATE_SIM_FAULT, read when the node is opened) and from the page NODE/faults,
// which can be rewritten while processes run. While the page holds rules, they replace the environment's. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::sim {

inline constexpr const char* kFaultVariable = "HEADGATE_SIM_FAULT";

namespace faults_detail {
inline constexpr std::uint32_t kArmed = ~std::uint32_t{0};
// Never null; counts rewrites of the page, odd during one.
extern std::atomic<const std::atomic<std::uint32_t>*> page_epoch;
extern std::atomic<std::uint32_t> quiet_epoch;  // the epoch at which there were no rules; kArmed if there are rules
// `device`: the GPU of the call. Rules with a device apply only if it matches.
std::uint32_t act(const char* function, std::uint32_t device = ~std::uint32_t{0});
// True if the rule that answered the calling thread's last act() was `sticky`.
extern thread_local bool ends_context;
bool lost(std::uint32_t device);
inline bool quiet() {
  return page_epoch.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) ==
         quiet_epoch.load(std::memory_order_relaxed);
}
}  // namespace faults_detail

// Call it first in each function of the driver and NVML, with its exact exported name. It sleeps or uses CPU time as
// the rules say. Returns the status to return at once, or 0 to continue. Without rules it costs loads of three words
// that do not change.
inline std::uint32_t fault(const char* function) {
  if (faults_detail::quiet()) [[likely]]
    return 0;
  return faults_detail::act(function);
}

// The same for functions that are called for one device, so that rules with a device apply.
inline std::uint32_t fault_on(const char* function, std::uint32_t device) {
  if (faults_detail::quiet()) [[likely]]
    return 0;
  return faults_detail::act(function, device);
}

// Returns true if a rule says that device `index` (the node's numbering) is lost.
inline bool device_lost(std::uint32_t index) {
  if (faults_detail::quiet()) [[likely]]
    return false;
  return faults_detail::lost(index);
}

// The XID that the rules assign to device `index`, and the rules' epoch. Each new epoch with a code is one event.
struct InjectedXid {
  std::uint32_t epoch = 0;
  std::uint32_t code = 0;  // 0: none
};
[[nodiscard]] InjectedXid injected_xid(std::uint32_t device);

// Reads the environment and maps NODE/faults, which it creates if the directory is writable. Call it when the node is
// opened; repeated calls are harmless. Errors (usage): parse_faults refuses HEADGATE_SIM_FAULT. A page that cannot be
// mapped is no error: then only the environment applies.
[[nodiscard]] Result<bool> open_faults(const std::string& node_directory);

// For tests and tools: checks `rules` and writes them into NODE/faults. Running processes apply them from their next
// call on. "" clears them.
[[nodiscard]] Result<bool> write_faults(const std::string& node_directory, std::string_view rules);

// Returns how often the node's processes acted on each rule since the last write_faults(), in the order of the rules.
// If the page holds none, these are the environment's. The last element counts all lost devices together. Only the
// first 63 rules are counted.
[[nodiscard]] Result<std::vector<std::uint64_t>> fault_hits(const std::string& node_directory);

}  // namespace headgate::sim
