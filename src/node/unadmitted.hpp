// Who sits in a share that asks first (--admit=ask) without leave: a limiter of somebody's own making that took a slot
// and did not wait. It cannot be kept out; it is named.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tenancy/processes.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

// For the loop's thread.
class Unadmitted {
 public:
  // Each once. `patience`: longer than an answer may take. Who sits there at the first call was let in by a former
  // daemon.
  std::vector<tenancy::TenantProcess> look(tenancy::Shares& shares, const tenancy::Processes& processes,
                                           std::chrono::nanoseconds now, std::chrono::nanoseconds patience);

 private:
  struct Seen {
    std::chrono::nanoseconds first{};
    bool told = false;
  };
  std::map<std::pair<std::string, std::uint32_t>, Seen> seen_;  // by share and host pid
  bool looked_ = false;
};

}  // namespace headgate::node
