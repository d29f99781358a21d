// What the node adds to each snapshot: what its ledgers say, memory that is still held, and what only the node knows of
// its shares and GPUs. For the daemon's loop only; add_ledgers() hands over what the observer's thread needs.
#pragma once

#include "node/admission_queue.hpp"
#include "node/gpu_policies.hpp"
#include "node/managed_shares.hpp"
#include "node/node_pages.hpp"
#include "node/share_reporter.hpp"
#include "observe/join.hpp"
#include "observe/promises.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::node {

class SnapshotContributor {
 public:
  // All must outlive it.
  SnapshotContributor(ManagedShares& managed, GpuPolicies& policies, const AdmissionQueue& queue,
                      ShareReporter& reporter);
  SnapshotContributor(const SnapshotContributor&) = delete;

  // Call them around each reading of the driver, whatever caused it: they settle what drains and inform limiters.
  void before_reading();
  void after_reading(const observe::DriverMemory& memory);

  // Reaps the dead, then adds what the ledgers say, including those of runs without the daemon.
  void add_ledgers(observe::JoinInput& input);
  // Adds leases, owners' names, what is broken, and the GPUs' policies, which are off from here on where the snapshot
  // has programs without turns.
  void finish(snapshot::Snapshot& snapshot);

  // Returns the descriptor of the share's node page; -1 if the kernel makes none.
  [[nodiscard]] int node_page(const std::string& share) { return node_pages_.descriptor(share); }

 private:
  void give_back_dead(const std::string& name, tenancy::LiveShare& live, std::size_t& asked) const;
  void fill(snapshot::Gpu& gpu) const;
  void fill(snapshot::Share& share, std::int64_t now_s);
  void add_broken(snapshot::Snapshot& snapshot) const;
  void follow_promises(snapshot::Snapshot& snapshot);

  ManagedShares& managed_;
  GpuPolicies& policies_;
  const AdmissionQueue& queue_;
  ShareReporter& reporter_;
  PageDamage damage_;
  DeadProcessMemory dead_process_memory_;
  NodePages node_pages_;
  observe::Promises promises_;
};

}  // namespace headgate::node
