// The end of shares: of those whose time is over, and of runs' shares that stay empty. For the daemon's loop only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "node/managed_shares.hpp"
#include "node/share_reporter.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {

class ShareExpiry {
 public:
  // Both must outlive it.
  ShareExpiry(ManagedShares& managed, ShareReporter& reporter) : managed_(managed), reporter_(reporter) {}

  // Call it about once a second.
  void look(const snapshot::Snapshot& latest, std::int64_t now_unix_s);

 private:
  [[nodiscard]] bool is_empty_for_good(const tenancy::LiveShare& live, const snapshot::Share& seen,
                                       std::int64_t now_unix_s);
  [[nodiscard]] std::string next_costly(const std::vector<std::string>& over);
  void expire(const std::string& name, tenancy::LiveShare& live);

  ManagedShares& managed_;
  ShareReporter& reporter_;
  std::string last_sought_;  // the damaged share past its end that was last checked for users
};

}  // namespace headgate::node
