// How the shares on each GPU divide it: the policy that an administrator or the configuration names, whether it is in
// force, and the GPU's compute mode.
#pragma once

#include <map>
#include <string>

#include "base/result.hpp"
#include "node/caller.hpp"
#include "node/managed_shares.hpp"
#include "node/mps_activity.hpp"
#include "schedule/terms.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {

class GpuPolicies {
 public:
  explicit GpuPolicies(ManagedShares& managed) : managed_(managed) {}

  // Sets and stores which share gets the GPU when several want it: fair, priority, off; default: as the configuration
  // says. `void_promises`: even if promises on it are no longer kept (void_promises.hpp). Errors: denied; usage;
  // not_found; of the store; conflict, with those promises.
  [[nodiscard]] Result<void> set(const std::string& uuid, const std::string& policy, bool void_promises,
                                 const Caller& caller);
  // Sets what the configuration says, for all GPUs without another policy.
  void set_usual(schedule::Policy policy);
  // Returns off for a GPU that is not arbitrated.
  [[nodiscard]] schedule::Policy of(const std::string& uuid) const;

  // Fills in the policies of the snapshot's GPUs, which are off from here on where it has programs without turns.
  void follow(snapshot::Snapshot& snapshot);

  // Checks whether the GPUs' compute modes, as last followed, let programs of the share work. Errors: conflict.
  [[nodiscard]] Result<void> check_compute_mode(const tenancy::Share& share) const;

 private:
  [[nodiscard]] std::uint32_t sliced_processes(const snapshot::Snapshot& snapshot, const std::string& uuid) const;

  ManagedShares& managed_;
  schedule::Policy usual_ = schedule::Policy::fair;
  MpsActivity mps_activity_, slice_activity_;
  std::map<std::string, std::string> compute_modes_;  // by UUID
};

}  // namespace headgate::node
