// The node pages of the shares (guest/ledger/node_page.hpp): what one reading of the driver says, written where
// limiters look.
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

// All on the loop's one thread.
class NodePages {
 public:
  NodePages();
  ~NodePages();
  NodePages(const NodePages&) = delete;

  // Of the share's page, made at the first call; nobody who has it can write to it or shorten it (before Linux 5.1: who
  // may open it anew can). -1 where the kernel makes none: the share's limiters then ask NVML.
  [[nodiscard]] int descriptor(const std::string& share);
  void forget(const std::string& share);

  // Around each reading of the driver: before its first question, and with its answers.
  void begin();
  void tell(const observe::DriverMemory& memory, const tenancy::Shares& shares, const tenancy::Processes& processes);

  // What a context takes of that card, in bytes; 0: not known.
  [[nodiscard]] std::uint64_t context_bytes(const std::string& uuid) const { return contexts_.of(uuid); }

 private:
  struct Page;
  std::map<std::string, std::unique_ptr<Page>> pages_;
  ContextSizes contexts_;
};

}  // namespace headgate::node
