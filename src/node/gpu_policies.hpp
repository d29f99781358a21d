// How the shares on each GPU divide it: the policy that an administrator or the configuration names, whether it is in
// force, and the GPU's compute mode.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.hpp"
#include "node/caller.hpp"
#include "node/managed_shares.hpp"
#include "schedule/terms.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {

// Programs that start within this time after one another keep a GPU in one state.
inline constexpr std::uint64_t kMpsGoneNs = 3'000'000'000;

// Which GPUs have programs without turns: clients of an MPS server, whose kernels run at once, or programs of shares in
// the driver's time slices. The arbiter's policy is off for as long. Pure: time is an argument.
class MpsActivity {
 public:
  enum class News { none, began, ended };

  // Takes from one snapshot how many processes of shares are clients on the GPU. Begins at once, ends when there was
  // none for kMpsGoneNs. `now_ns`: CLOCK_MONOTONIC.
  News look(const std::string& uuid, std::uint32_t clients, std::uint64_t now_ns);
  [[nodiscard]] bool is_on(const std::string& uuid) const { return last_seen_ns_.contains(uuid); }

 private:
  std::map<std::string, std::uint64_t> last_seen_ns_;  // of GPUs on which it has begun
};

class GpuPolicies {
 public:
  explicit GpuPolicies(ManagedShares& managed) : managed_(managed) {}

  // Sets and stores which share gets the GPU when several want it: fair, priority, off; default: as the configuration
  // says. `void_promises`: even if promises on it are no longer kept (share_rights.hpp). Errors: denied; usage;
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
