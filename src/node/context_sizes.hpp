// The size of a context on each card, from what limiters measured in their shares and what the driver lists.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "observe/driver_memory.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

// Tenants write what their limiter measured. The largest of all shares' figures counts, so a tenant that writes too
// little misleads only its own share. No figure counts for more than the smallest that the driver lists for a share's
// process.
class ContextSizes {
 public:
  void look(const observe::DriverMemory& memory, const tenancy::Shares& shares, const tenancy::Processes& processes);
  // Returns bytes; 0: no share has measured one there.
  [[nodiscard]] std::uint64_t of(const std::string& uuid) const;

 private:
  struct Known {
    std::uint64_t smallest_listed_bytes = ~0ull, bytes = 0;
  };
  std::map<std::string, Known> cards_;  // by UUID
};

}  // namespace headgate::node
