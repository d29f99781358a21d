// What one reading of the driver says: for limiters to read in the node pages of their shares
// (guest/ledger/node_page.hpp), and of the memory of dead processes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "guest/ledger/draining.hpp"
#include "observe/driver_memory.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

// The size of a context on each card, from what limiters measured in their shares and what the driver lists.
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

// Call all of it on the loop's one thread.
class NodePages {
 public:
  NodePages();
  ~NodePages();
  NodePages(const NodePages&) = delete;

  // Returns the share's page, made at the first call. Its holders can neither write to it nor shorten it (before Linux
  // 5.1 one that may reopen it can). -1 if the kernel makes none: the share's limiters then ask NVML.
  [[nodiscard]] int descriptor(const std::string& share);
  void forget(const std::string& share);

  // Call begin() before a reading's first question to the driver, tell() with its answers.
  void begin();
  void tell(const observe::DriverMemory& memory, const tenancy::Shares& shares, const tenancy::Processes& processes);

  // Returns what a context takes of that card, in bytes; 0: unknown.
  [[nodiscard]] std::uint64_t context_bytes(const std::string& uuid) const { return contexts_.of(uuid); }

 private:
  struct Page;
  std::map<std::string, std::unique_ptr<Page>> pages_;
  ContextSizes contexts_;
};

// Returns GPU memory of dead processes to their shares once the driver shows it gone.
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
