// The node's observer: takes snapshots of driver and ledgers, and acts on what the audit finds.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon/cdi_files.hpp"
#include "daemon/context.hpp"
#include "daemon/node_host.hpp"
#include "node/enforce.hpp"
#include "observe/lost_gpus.hpp"
#include "observe/observer.hpp"

namespace headgate::daemon {

// For the loop's thread.
class NodeObserver {
 public:
  // Takes a client off its MPS server before it is killed; returns whether it was one. Called on the observer's thread.
  // After busy or unreachable, a later call may succeed.
  using TakeOffMps = std::function<Result<bool>(std::uint32_t pid)>;

  // All references must outlive it.
  NodeObserver(Context& context, NodeHost& node, const CdiFiles& cdi, TakeOffMps take_off)
      : context_(context), node_(node), cdi_(cdi), take_off_(std::move(take_off)) {}

  // Takes the first snapshot, and more on a separate thread. Errors: of the driver.
  [[nodiscard]] Result<void> start();
  [[nodiscard]] observe::Observer& observer() { return *observer_; }

  // Applies the audit rules of a configuration that was read again.
  void set_audit(node::AuditPolicy policy, std::vector<std::string> exempt);
  // Reports a driver that does not answer. Call it about once a second.
  void tell_silence();

 private:
  [[nodiscard]] observe::ObserverSources sources();
  void act(const observe::Finding& found);
  void act_on_postponed();

  Context& context_;
  NodeHost& node_;
  const CdiFiles& cdi_;
  const TakeOffMps take_off_;
  node::FrozenProcesses frozen_processes_;   // used only during a look, by act() and ObserverSources::finish
  std::vector<observe::Finding> postponed_;  // their processes may still be MPS clients; used only by act()
  std::atomic<node::AuditPolicy> audit_policy_ = node::AuditPolicy::warn;
  observe::DriverSilence driver_silence_;
  std::optional<observe::Observer> observer_;
};

}  // namespace headgate::daemon
