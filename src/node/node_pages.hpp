// The node pages of the shares (guest/ledger/node_page.hpp): what one reading of the driver says, for limiters to read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "node/context_sizes.hpp"
#include "observe/driver_memory.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

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

}  // namespace headgate::node
