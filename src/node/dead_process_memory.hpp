// What dead processes had on the GPUs, still charged to their shares, given back once the driver shows it gone.
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
  // Around a reading of the driver: what drains before its first question, and for what of that its answers leave no
  // room in the memory that nobody living holds, is gone.
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
