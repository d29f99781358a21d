// What a context takes of each card, by what limiters measured in their shares and by what the driver lists.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "observe/driver_memory.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

// Tenants write what their limiter measured. One that writes too little misleads its own share alone, because the
// largest of all shares' figures counts; and none counts for more than the smallest figure that the driver lists a
// process of a share with.
class ContextSizes {
 public:
  void look(const observe::DriverMemory& memory, const tenancy::Shares& shares, const tenancy::Processes& processes);
  // Bytes; 0: no share has measured one there yet.
  [[nodiscard]] std::uint64_t of(const std::string& uuid) const;

 private:
  struct Known {
    std::uint64_t smallest_listed_bytes = ~0ull, bytes = 0;
  };
  std::map<std::string, Known> cards_;  // by UUID
};

}  // namespace headgate::node
