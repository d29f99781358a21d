#include "daemon/node_observer.hpp"

#include <unistd.h>

#include <array>
#include <utility>

#include "base/now.hpp"
#include "base/version.hpp"
#include "daemon/journal.hpp"
#include "daemon/settings.hpp"
#include "identity/peer.hpp"
#include "mps/control_daemon.hpp"
#include "node/bypass.hpp"
#include "observe/pid_space.hpp"

namespace headgate::daemon {
namespace {

// `done`: of node::enforce(), which only warned if nothing is proven.
snapshot::Event enforcement_event(const observe::Finding& found, const Result<node::EnforcementResult>& done) {
  return {.kind = !found.proven ? "audit.spared"
                  : done        ? "audit.acted"
                                : "audit.failed",
          .severity = done ? "warn" : "error",
          .share = found.share,
          .uuid = found.uuid,
          .pid = found.pid,
          .uid = found.uid,
          .owner_uid = found.owner_uid,
          .text = (done ? "process " + std::to_string(found.pid) + " " + done->text : done.error().message) +
                  (found.proven ? "" : " and nothing else was done: " + found.doubt)};
}

}  // namespace

observe::ObserverSources NodeObserver::sources() {
  observe::ObserverSources sources;
  sources.nvml_library = context_.source.library;
  std::array<char, 256> host{};
  sources.node.name = ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
  sources.node.version = version_text();
  sources.node.pid_space = observe::own_pid_space();
  sources.node.simulated = node_.is_simulated();
  sources.foreign_pids = !node_.is_simulated() && !identity::in_host_pid_namespace("/proc");
  sources.node.reserve_bytes = node_.node().shares().node().reserve.driver_bytes;
  sources.node.started_unix_ns = unix_now_ns();
  // The node belongs to the loop's thread; the observer calls it there.
  node::SnapshotContributor& node = node_.node().snapshots;
  sources.before_reading = [this, &node] { context_.on_loop([&] { node.before_reading(); }); };
  sources.after_reading = [this, &node](const observe::DriverMemory& memory) {
    context_.on_loop([&] { node.after_reading(memory); });
  };
  sources.add_ledgers = [this, &node](observe::JoinInput& input) {
    context_.on_loop([&] { node.add_ledgers(input); });
  };
  sources.fence_notes = context_.places.runtime_dir + "/driver-limits";
  if (!sources.foreign_pids)  // those lead to no cgroups
    sources.fence_targets = [this](const observe::JoinInput& input) {
      std::vector<node::RunInShare> runs;
      context_.on_loop([&] { runs = node_.node().runs(); });
      return node::own_cgroups(input, runs);
    };
  sources.finish = [this, &node](snapshot::Snapshot& snapshot) {
    context_.on_loop([&] { node.finish(snapshot), cdi_.write_into(snapshot); });
    act_on_postponed();
    frozen_processes_.write_into(snapshot);
    context_.tally.look(snapshot);
  };
  sources.explain = [](std::uint32_t pid) { return node::how_it_goes_around(pid, "/proc"); };
  sources.share_of_ended = [this](std::uint32_t pid) {
    observe::FormerShare share;
    context_.on_loop([&] { share = node_.former().of(pid); });
    return share;
  };
  sources.act = [this](const observe::Finding& found) { act(found); };
  return sources;
}

Result<void> NodeObserver::start() {
  audit_policy_ = TRY(node::parse_audit_policy(context_.config["audit.policy"].value));
  observe::AuditRules rules;
  rules.exempt = exempt_programs(context_.config);
  rules.compute.frozen = [](std::uint32_t pid) { return node::is_frozen(pid); };
  observer_.emplace(sources(), std::move(rules), context_.events);
  return observer_->start();
}

// Called on the observer's thread.
void NodeObserver::act(const observe::Finding& found) {
  const node::AuditPolicy policy = audit_policy_;
  if (policy == node::AuditPolicy::warn) return;
  const bool spared = !found.proven;
  const node::ProcessRef process_ref{found.pid, found.start_time};
  // A client of an MPS server that is killed takes its neighbours along: take it off first.
  const auto off = !spared && policy == node::AuditPolicy::kill ? take_off_(found.pid) : Result<bool>(false);
  if (!off && (off.error().code == ErrorCode::busy || off.error().code == ErrorCode::unreachable)) {
    warn("audit: process " + std::to_string(found.pid) + " is not killed before the next look: " + off.error().message);
    postponed_.push_back(found);
    return;
  }
  const bool taken_off = off && *off;
  auto done = node::enforce(spared ? node::AuditPolicy::warn : policy, process_ref);
  // Off its server each call of a program fails, and most programs then end.
  if (!done && taken_off && !mps::open_process({found.pid, found.start_time}, "/proc"))
    done = node::EnforcementResult{"was taken off its MPS server, and has ended", {}};
  if (done && done->frozen) frozen_processes_.add(process_ref, *done->frozen);
  context_.events.add(enforcement_event(found, done));
}

// The audit reports a finding once.
void NodeObserver::act_on_postponed() {
  for (const observe::Finding& found : std::exchange(postponed_, {}))
    if (mps::open_process({found.pid, found.start_time}, "/proc")) act(found);
}

void NodeObserver::set_audit(node::AuditPolicy policy, std::vector<std::string> exempt) {
  audit_policy_ = policy;
  observer_->set_exempt(std::move(exempt));
}

void NodeObserver::tell_silence() {
  if (auto event = driver_silence_.look(observer_->driver_silence())) context_.events.add(std::move(*event));
}

}  // namespace headgate::daemon
