// The node's shares, and what follows when one is made, changed or removed: its event, the arbiter's books, and the
// parts that watch shares. All operations of a node work on it. For the daemon's loop only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/gpu_throughput.hpp"
#include "base/result.hpp"
#include "node/arbitration.hpp"
#include "observe/event_log.hpp"
#include "snapshot/snapshot.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

struct NodeOptions {
  std::string runtime_dir;    // absolute; shares/NAME lie below it
  std::string state_file;     // the store's
  std::string simulated_dir;  // of the simulated node; empty on a real one
  tenancy::Reserve reserve;
  std::vector<snapshot::Gpu> gpus;         // as the driver reported at the start
  GpuThroughput cards;                     // the operator's table, for shares in TFLOPS
  bool mps_exclusive = false;              // a GPU with a share under MPS takes only its owner's shares under MPS
  std::set<std::string> mps_for_all = {};  // UUIDs of GPUs whose MPS server serves all users
  std::size_t shares_per_user = 64;        // of a non-administrator without a quota that counts shares
};

class ManagedShares {
 public:
  // Called when an operation, or the end of its time, makes a share, removes it, or opens or closes it to newcomers.
  // Each may be empty.
  using Watcher = std::function<void(const std::string& name)>;
  struct Watch {
    Watcher made, gone, changed;
  };

  // Adopts the existing shares, with an event for each. Errors: of the store or the runtime directory.
  [[nodiscard]] static Result<ManagedShares> open(NodeOptions options, observe::EventLog& events);

  void watch(Watch watch) { watches_.push_back(std::move(watch)); }

  // Makes the share and reports it. Errors: of tenancy::Shares::create().
  [[nodiscard]] Result<void> make(tenancy::Share share);
  // Call it when the share is no longer in `shares`.
  void forget(const std::string& name);
  // Call it when the share admits other processes than before.
  void changed(const std::string& name) const;

  // Writes what the shares on these GPUs, on the share's, or on all, may take while no daemon runs.
  void divide_unattended(const std::vector<tenancy::DeviceShare>& devices);
  void divide_unattended(const std::string& name);
  void divide_unattended();

  // Adds an event. `owner_uid`: of a share that is already gone; else it is looked up.
  void tell(const std::string& kind, const std::string& severity, const std::string& share, std::uint32_t uid,
            const std::string& text, std::optional<std::uint32_t> owner_uid = {}) const;
  [[nodiscard]] std::size_t processes_in(const std::string& name) const {
    return tenants == nullptr ? 0 : tenants->count_in(name);
  }

  tenancy::Shares shares;
  NodeOptions options;
  observe::EventLog& events;
  // Both may stay unset, and outlive this.
  tenancy::Processes* tenants = nullptr;
  Arbitration* arbitration = nullptr;

 private:
  ManagedShares(tenancy::Shares all, NodeOptions with, observe::EventLog& log)
      : shares(std::move(all)), options(std::move(with)), events(log) {}

  std::vector<Watch> watches_;
};

}  // namespace headgate::node
