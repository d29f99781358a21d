// A node with its shares: the parts of this room, wired together. For the daemon's loop only, except where stated.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "node/admission_queue.hpp"
#include "node/gpu_policies.hpp"
#include "node/managed_shares.hpp"
#include "node/own_cgroups.hpp"
#include "node/quota_service.hpp"
#include "node/share_access.hpp"
#include "node/share_expiry.hpp"
#include "node/share_reporter.hpp"
#include "node/share_service.hpp"
#include "node/snapshot_contributor.hpp"

namespace headgate::node {

class Node {
 public:
  // Adopts the existing shares. Errors: of the store or the runtime directory.
  [[nodiscard]] static Result<std::unique_ptr<Node>> open(NodeOptions options, observe::EventLog& events);
  Node(const Node&) = delete;

  // Each needs only those before it.
  ManagedShares managed;
  GpuPolicies policies{managed};
  QuotaService quotas{managed};
  ShareReporter reporter{managed};
  AdmissionQueue queue{managed};
  ShareService service{managed, policies, queue, reporter};
  ShareAccess access{managed, policies};
  ShareExpiry expiry{managed, reporter};
  SnapshotContributor snapshots{managed, policies, queue, reporter};

  [[nodiscard]] tenancy::Shares& shares() { return managed.shares; }
  [[nodiscard]] const tenancy::Shares& shares() const { return managed.shares; }

  // Call it about once a second: ends shares that have expired, and reports idle ones.
  void keep_time(const snapshot::Snapshot& latest, std::int64_t now_unix_s);

  // Call it when the share's socket is open: the arbiter listens to its bell from now on.
  [[nodiscard]] Result<void> arbitrate(const std::string& share, UniqueFd bell);
  // Replaces a bell that a process of the share has spoiled, and writes an event.
  [[nodiscard]] Result<void> replace_bell(const std::string& share, UniqueFd bell);
  // Returns descriptors for a limiter of the share, beside those of the share itself (guest/ledger/registration.hpp).
  [[nodiscard]] std::vector<int> handed(const std::string& share);

  // Returns the commands that wait in shares; some may have ended.
  [[nodiscard]] std::vector<RunInShare> runs() const;

  // Both are thread-safe.
  [[nodiscard]] std::int64_t arbiter_silence_ns() const {
    return managed.arbitration == nullptr ? 0 : managed.arbitration->silence_ns();
  }
  [[nodiscard]] std::optional<Arbitration::Figures> arbiter_figures() const {
    return managed.arbitration == nullptr ? std::nullopt : std::optional(managed.arbitration->figures());
  }

 private:
  explicit Node(ManagedShares shares) : managed(std::move(shares)) {}
};

}  // namespace headgate::node
