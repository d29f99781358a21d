// Finds shares whose usage page a tenant has damaged, and reports the processes that can have done it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "node/managed_shares.hpp"
#include "observe/page_check.hpp"

namespace headgate::node {

class PageDamage {
 public:
  explicit PageDamage(ManagedShares& managed) : managed_(managed) {}

  // Call it for each GPU that answers, with its memory in bytes.
  void take_card(const std::string& uuid, std::uint64_t bytes) { card_bytes_[uuid] = bytes; }
  // Checks the pages of a share that has some; cuts what a tenant added to them. `now_ns`: of a monotonic clock.
  void look(const std::string& name, tenancy::LiveShare& live, std::uint64_t now_ns);
  void forget(const std::string& name) { checks_.erase(name); }

 private:
  [[nodiscard]] std::uint64_t largest_card_of(const tenancy::Share& share) const;
  void tell(const std::string& name, tenancy::LiveShare& live, const std::string& what);

  ManagedShares& managed_;
  std::map<std::string, observe::PageCheck> checks_;  // by share
  std::map<std::string, std::uint64_t> card_bytes_;   // by UUID, of each GPU that has answered once
};

}  // namespace headgate::node
