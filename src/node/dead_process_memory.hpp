// Returns GPU memory of dead processes to their shares once the driver shows it gone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "guest/ledger/draining.hpp"
#include "observe/driver_memory.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

class DeadProcessMemory {
 public:
  // Call look() before the first question of a reading of the driver, settle() with its answers. Of what drained
  // before, the part that no longer fits into the memory that no living process holds is gone.
  void look(tenancy::Shares& shares);
  void settle(tenancy::Shares& shares, const observe::DriverMemory& memory);

 private:
  using Key = std::pair<std::string, std::uint32_t>;  // share and its device
  struct Seen {
    std::uint64_t generation = 0;  // of the share's pages
    ledger::Draining draining;
  };
  std::map<Key, std::unique_ptr<Seen>> seen_;
};

}  // namespace headgate::node
