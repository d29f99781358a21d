// Shares under MPS: starts their control daemons for the first program, stops them after the last, and reports both.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/mps_routes.hpp"
#include "base/result.hpp"
#include "daemon/context.hpp"
#include "mps/keeper.hpp"
#include "mps/manager.hpp"
#include "node/node.hpp"
#include "observe/event_log.hpp"
#include "oci/share_device.hpp"
#include "tenancy/processes.hpp"

namespace headgate::daemon {

// Keeps GPUs in compute mode exclusive process while MPS control daemons run there, and decides when to try again.
// Thread-safe.
class MpsModes {
 public:
  // Holds the mode for a control daemon; holding it twice is no error. `done` may be called on another thread, as long
  // as this object lives.
  using Hold = std::function<void(const std::string& uuid, std::uint32_t pid, std::function<void(Result<void>)> done)>;
  using Report = std::function<void(const mps::GroupKey& group, const Error& why)>;
  MpsModes(Hold hold, Report report) : hold_(std::move(hold)), report_(std::move(report)) {}

  // Call it once a second. Each control daemon counts for itself: its third failure in a row is reported, and then it
  // tries once a minute. The lease of one that has died may last a moment longer, so one failure says nothing.
  void keep(const std::vector<mps::GroupView>& groups);

 private:
  struct Failures {
    std::uint32_t daemon_pid = 0;
    int in_a_row = 0, skipped = 0;  // skipped: seconds since the last try
  };
  [[nodiscard]] bool is_due(const mps::GroupKey& group, std::uint32_t pid);
  void done(const mps::GroupKey& group, std::uint32_t pid, const Result<void>& held);

  const Hold hold_;
  const Report report_;
  std::mutex mutex_;
  std::map<mps::GroupKey, Failures> failures_;  // of groups that a control daemon serves
};

// For the loop's thread, except where stated.
class MpsControl {
 public:
  // Holds a GPU in compute mode exclusive process while the process lives (mps.exclusive).
  using Exclusive = MpsModes::Hold;
  // Adopts what a former daemon left. The references must outlive it. Errors: of the install folder. Unreadable notes
  // of a former daemon are put aside and reported: the node is still metered.
  [[nodiscard]] static Result<std::unique_ptr<MpsControl>> start(Context& context, node::Node& node,
                                                                 Exclusive exclusive);

  // Starts the share's control daemon for the caller's process if the share is under MPS, and adds a client's variables
  // to the entry. `done` may be called on another thread.
  void prepare(node::Entry entry, const node::Caller& caller, std::function<void(Result<node::Entry>)> done);
  // Call it when a program has joined a share: its control daemon stays while the program lives.
  void joined(const tenancy::TenantProcess& tenant);
  // Returns what makes programs of a container clients of the share's control daemon: the pipe directory, which is
  // created, the host's /dev/shm and the variables. Returns nothing if the share is not under MPS. Errors: those of
  // places_of() and make_places().
  [[nodiscard]] Result<std::optional<oci::MpsClient>> container_client(const std::string& share) const;
  // Detaches a process from its MPS server before it is killed. Returns whether it was a client. Blocks for some
  // seconds at most. Any thread except the loop's. Errors: those of Keeper::take_off().
  [[nodiscard]] Result<bool> take_off(std::uint32_t pid);

  // Call it once a second. With mps.exclusive, holds the mode for control daemons that no run has prepared: a
  // container's, one that was started again, or one whose start a killed headgated did not finish.
  void keep_modes() {
    if (exclusive_) modes_.keep(keeper_.groups());
  }

  void add_routes(http::Router& router);  // of /v1/mps; it must outlive them
  [[nodiscard]] std::vector<mps::GroupView> groups() const { return keeper_.groups(); }
  // Leaves control daemons with tenants running. Returns false if the tool hangs.
  [[nodiscard]] bool stops_within(std::chrono::nanoseconds patience) { return keeper_.stop(patience); }

 private:
  MpsControl(mps::Manager::Options options, Context& context, node::Node& node, Exclusive exclusive);
  [[nodiscard]] std::string who_is_served_before(const mps::GroupKey& key, std::uint32_t uid) const;
  void make_exclusive(const mps::GroupKey& key, std::function<void(Result<void>)> done) const;
  [[nodiscard]] Result<void> may_end(const node::Caller& caller, std::uint32_t pid) const;

  node::Node& node_;
  const api::CurrentAccess& access_;
  observe::EventLog& events_;
  const std::string base_;
  const Exclusive exclusive_;  // empty: the compute mode is left alone
  MpsModes modes_;
  mps::Keeper keeper_;
};

}  // namespace headgate::daemon
