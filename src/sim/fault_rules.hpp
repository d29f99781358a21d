// The grammar of faults on demand, pure.
//
//   RULES  = RULE { "," RULE }
//   RULE   = FUNCTION ":" ACTION { ":" ACTION } | "device" INDEX ":lost" | "device" INDEX ":xid=" CODE
//   FUNCTION = a name of the driver or of NVML, a prefix and "*", or "*" for all
//   ACTION = fail=CODE      answer CODE (1..999) instead of doing the work
//          | sticky=CODE    the same, and the calling thread's context is over: it answers CODE (214, 700, 702, 710,
//          714..719) ever after | delay_us=N     sleep before the work (0..60000000); 0: the call is only counted, see
//          fault_hits() | slow_us=N      spend so much CPU time before the work, as a slow driver does (0..10000)
//          | after=N        leave the first N calls of this process alone
//          | count=N        act on N calls of this process, then no more
//          | device=N       of an NVML function that is called for one GPU: only where that is GPU N
//          | attribute=N    of cuDeviceGetAttribute: only of that attribute, by its number in cuda.h
//
// An XID (1..999) is an event of NVML, told once for each writing of the rules to whoever was registered for it by
// then.
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
  std::uint32_t device = kAnyDevice;  // of NVML's functions: calls for this GPU alone; an attribute likewise

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

// Empty text is no faults. Errors (usage) name the rule, the value and what is accepted.
[[nodiscard]] Result<FaultRules> parse_faults(std::string_view text);

}  // namespace headgate::sim
