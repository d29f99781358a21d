// Faults on demand, at any function of the simulated driver and NVML: the grammar is in fault_rules.hpp.
//
// They come from the environment (HEADGATE_SIM_FAULT, read when the node is opened) and from the page NODE/faults,
// which can be rewritten while processes run; the page's rules replace the environment's for as long as it holds any.
// Thread-safe throughout.
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
extern std::atomic<const std::atomic<std::uint32_t>*>
    page_epoch;  // never null; counts rewrites of the page, odd while one is under way
extern std::atomic<std::uint32_t>
    quiet_epoch;  // the epoch at which there was nothing to do; kArmed while there are rules
// `device`: of a call for one GPU, where only the rules for that GPU count; else none of those does.
std::uint32_t act(const char* function, std::uint32_t device = ~std::uint32_t{0});
// Of the calling thread's last act(): the rule that answered said `sticky`.
extern thread_local bool ends_context;
bool lost(std::uint32_t device);
inline bool quiet() {
  return page_epoch.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) ==
         quiet_epoch.load(std::memory_order_relaxed);
}
}  // namespace faults_detail

// Call it first in each function of the driver and NVML, with its exact exported name. It sleeps or spends time as the
// rules say, and returns the status to answer with at once, or 0 to go on. With no rules it costs loads of three words
// that nobody writes.
inline std::uint32_t fault(const char* function) {
  if (faults_detail::quiet()) [[likely]]
    return 0;
  return faults_detail::act(function);
}

// The same for the rules that name a device, in functions that are called for one.
inline std::uint32_t fault_on(const char* function, std::uint32_t device) {
  if (faults_detail::quiet()) [[likely]]
    return 0;
  return faults_detail::act(function, device);
}

// Whether a rule says that device `index` (the node's numbering) is lost.
inline bool device_lost(std::uint32_t index) {
  if (faults_detail::quiet()) [[likely]]
    return false;
  return faults_detail::lost(index);
}

// The XID that the rules in force put on device `index`, and the number of their writing: each new epoch with a code is
// one event.
struct InjectedXid {
  std::uint32_t epoch = 0;
  std::uint32_t code = 0;  // 0: none
};
[[nodiscard]] InjectedXid injected_xid(std::uint32_t device);

// Reads the environment and maps NODE/faults, making it where the directory allows. Call it when the node is opened;
// again is harmless. Errors (usage): HEADGATE_SIM_FAULT holds what parse_faults refuses. A page that cannot be had is
// no error: then the environment counts alone.
[[nodiscard]] Result<bool> open_faults(const std::string& node_directory);

// For tests and tools: checks `rules`, then writes them into NODE/faults; running processes act on them at their next
// call. "" clears.
[[nodiscard]] Result<bool> write_faults(const std::string& node_directory, std::string_view rules);

// How often each rule was acted on by any process of the node since write_faults() last ran, in the order in which they
// were written (the environment's, where the page holds none); lost devices come last, all together. Of the first 63
// rules.
[[nodiscard]] Result<std::vector<std::uint64_t>> fault_hits(const std::string& node_directory);

}  // namespace headgate::sim
