// Finds processes that sit in a share that asks first (--admit=ask) without being admitted: a modified limiter took a
// slot and did not wait. They cannot be kept out, only reported.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tenancy/processes.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

// Use it on the loop's thread.
class Unadmitted {
 public:
  // Returns each once. `patience`: longer than an answer may take. Processes that sit there at the first call were let
  // in by a former daemon.
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
