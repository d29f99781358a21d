// What dead processes had on the GPUs, still charged to their shares, given back once the driver shows it gone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "guest/ledger/draining.hpp"
#include "observe/gpus.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

class Remains {
 public:
  // With a picture of the driver that was taken after the last call: what was draining then, and for what there is no room left
  // in the memory that nobody living holds, is gone. Then looks at the pages anew, for the next call.
  void settle(tenancy::Shares& shares, const observe::DriverPicture& driver);

 private:
  using Key = std::pair<std::string, std::uint32_t>;  // share and its device
  struct Seen {
    std::uint64_t generation = 0;  // of the share's pages
    ledger::Draining draining;
  };
  std::map<Key, std::unique_ptr<Seen>> seen_;
};

// Memory in use on a GPU that is no living process's, by NVML; null where NVML does not tell a process's part.
[[nodiscard]] std::optional<std::uint64_t> unattributed_bytes(const observe::DriverPicture& driver,
                                                              const std::string& uuid);

}  // namespace headgate::node
