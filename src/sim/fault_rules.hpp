// The grammar of injected faults, pure.
//
// RULES  = RULE { "," RULE }
// RULE   = FUNCTION ":" ACTION { ":" ACTION } | "device" INDEX ":lost" | "device" INDEX ":xid=" CODE
// FUNCTION = a name of the driver or of NVML, a prefix and "*", or "*" for all
// ACTION = fail=CODE      return CODE (1..999) instead of doing the work
//        | sticky=CODE    the same, and end the thread's context: it returns CODE (214, 700, 702, 710, 714..719)
//        | delay_us=N     sleep before the work (0..60000000); 0: only count the call, see fault_hits()
//        | slow_us=N      use this much CPU time before the work, like a slow driver (0..10000)
//        | after=N        ignore this process's first N calls
//        | count=N        act on N calls of this process, then stop
//        | device=N       NVML functions for one GPU: only if it is GPU N
//        | attribute=N    cuDeviceGetAttribute: only this attribute, by its number in cuda.h
//
// An XID (1..999) is an NVML event. Each writing of the rules sends it once to each process registered by then.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sim/profile.hpp"

namespace headgate::sim {

inline constexpr std::uint32_t kAnyDevice = ~std::uint32_t{0};

struct FaultRule {
  std::string function;  // without the star
  bool prefix = false;   // FUNCTION ended in a star
  std::uint32_t fail_code = 0;
  bool sticky = false;
  std::uint64_t delay_us = 0;
  std::uint64_t slow_us = 0;
  std::uint64_t after = 0;
  std::uint64_t count = UINT64_MAX;
  std::uint32_t device = kAnyDevice;  // only calls for this GPU (NVML), or for this attribute

  [[nodiscard]] bool matches(std::string_view called) const {
    return prefix ? called.starts_with(function) : called == function;
  }
  friend bool operator==(const FaultRule&, const FaultRule&) = default;
};

struct FaultRules {
  std::vector<FaultRule> rules;
  std::uint32_t lost_devices = 0;                 // bit i: device i is lost
  std::array<std::uint32_t, kMaxDevices> xids{};  // 0: none

  [[nodiscard]] bool empty() const { return rules.empty() && lost_devices == 0 && xids == decltype(xids){}; }
  friend bool operator==(const FaultRules&, const FaultRules&) = default;
};

// Empty text means no faults. Errors (usage) name the rule, the value and what is accepted.
[[nodiscard]] Result<FaultRules> parse_faults(std::string_view text);

}  // namespace headgate::sim
