// How programs come into shares: what a run, a container or a share's MPS server needs. For the daemon's loop only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "node/caller.hpp"
#include "node/gpu_policies.hpp"
#include "node/managed_shares.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {

// What a program needs to enter a share.
struct Entry {
  std::string runtime_dir, share, directory;
  std::vector<std::string> uuids;
  std::string simulated_dir;  // empty on a real node
  // CUDA_MPS_ACTIVE_THREAD_PERCENTAGE of a program in it that becomes a client of an MPS server: its highest ceiling,
  // 1..100.
  std::uint32_t thread_percentage = 100;
  // What the daemon adds for the share's isolation; the caller's environment does not replace it.
  std::vector<std::pair<std::string, std::string>> variables = {};
  std::string waits_for = {};  // why the caller's programs would wait for the GPU now; empty if they would not
};

// What starting the MPS server of a share takes.
struct MpsShare {
  std::string name, uuid;
  std::uint32_t owner_uid = 0;
  std::uint32_t thread_percentage = 100;
  std::optional<std::uint64_t> memory_limit_bytes;
  bool low_priority = false;  // of class best-effort
  bool for_all = false;       // one server serves all users there
};

class ShareAccess {
 public:
  // Both must outlive it.
  ShareAccess(ManagedShares& managed, const GpuPolicies& policies) : managed_(managed), policies_(policies) {}

  // `stay`: calls Shares::attach_run() for the caller, if its process is known. Errors: not_found if the caller may not
  // enter it or it is not there; failed if its pages are broken.
  [[nodiscard]] Result<Entry> entry(const std::string& name, const Caller& caller, bool stay);
  // Whether a container whose programs are `user`'s may start in the share now. Errors: as entry(); denied, where the
  // share does not admit that user; conflict while it is paused, drained, over or full.
  [[nodiscard]] Result<void> check_container(const std::string& name, const tenancy::Visitor& user,
                                             const Caller& caller);
  // Nothing where the share is not there, or not under MPS.
  [[nodiscard]] std::optional<MpsShare> mps_share(const std::string& name) const;

 private:
  ManagedShares& managed_;
  const GpuPolicies& policies_;
};

}  // namespace headgate::node
