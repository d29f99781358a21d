// The operations of a node: what the API, and through it the command, may ask headgated to do. Each checks the caller,
// does it, and writes an event. For the daemon's loop only; hand_ledgers() hands over what the observer's thread needs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/gpu_throughput.hpp"
#include "base/result.hpp"
#include "node/arbitration.hpp"
#include "node/caller.hpp"
#include "node/dead_process_memory.hpp"
#include "node/mps_activity.hpp"
#include "node/node_pages.hpp"
#include "node/own_cgroups.hpp"
#include "node/queue.hpp"
#include "node/share_request.hpp"
#include "observe/event_log.hpp"
#include "observe/join.hpp"
#include "observe/page_check.hpp"
#include "observe/promises.hpp"
#include "snapshot/snapshot.hpp"
#include "tenancy/access.hpp"
#include "tenancy/processes.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {

struct NodeOptions {
  std::string runtime_dir;    // absolute; shares/NAME lie below it
  std::string state_file;     // the store's
  std::string simulated_dir;  // of the simulated node; empty on a real one
  tenancy::Reserve reserve;
  std::vector<snapshot::Gpu> gpus;   // as the driver reported at the start
  GpuThroughput cards;               // the operator's table, for shares in TFLOPS
  bool mps_exclusive = false;        // a GPU with a share under MPS takes only its owner's shares under MPS
  std::size_t shares_per_user = 64;  // of a non-administrator without a quota that counts shares
};

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
};

// What starting the MPS server of a share takes.
struct MpsShare {
  std::string name, uuid;
  std::uint32_t owner_uid = 0;
  std::uint32_t thread_percentage = 100;
  std::optional<std::uint64_t> memory_limit_bytes;
  bool low_priority = false;  // of class best-effort
};

class Node {
 public:
  // Adopts the existing shares. Errors: of the store or the runtime directory.
  [[nodiscard]] static Result<Node> open(NodeOptions options, observe::EventLog& events);

  // `gpus`: of the latest snapshot, for "auto" and percentages. Errors: of share_of and admission; denied.
  [[nodiscard]] Result<void> create(const ShareRequest& order, const Caller& caller,
                                    const std::vector<snapshot::Gpu>& gpus);
  [[nodiscard]] Result<void> set(const std::string& name, const ShareRequest& order, const Caller& caller,
                                 const std::vector<snapshot::Gpu>& gpus);
  // As set() for several shares in one step: room is looked for as all of them will be, and after an error none has
  // changed. Errors: besides those of set(), usage for a share that is named twice.
  using NamedRequest = std::pair<std::string, ShareRequest>;
  [[nodiscard]] Result<void> set(const std::vector<NamedRequest>& orders, const Caller& caller,
                                 const std::vector<snapshot::Gpu>& gpus);
  // As create(), as soon as there is room, behind earlier requests (queue.hpp); what is known at once is reported
  // before this returns. Errors: of create() except room; no_capacity if it can never fit, or too many wait.
  [[nodiscard]] Result<std::uint64_t> wait_for_room(const ShareRequest& order, const Caller& caller,
                                                    const std::vector<snapshot::Gpu>& gpus, Queue::Events events);
  // `ticket`: of wait_for_room(). A request that no longer waits has left already.
  void leave_queue(std::uint64_t ticket);
  [[nodiscard]] Result<void> remove(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> pause(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> resume(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> drain(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> reclaim(const std::string& name, const Caller& caller);

  // `stay`: calls Shares::attach_run() for the caller, if its process is known. Errors: not_found if the caller may not
  // enter it or it is not there; failed if its pages are broken.
  [[nodiscard]] Result<Entry> entry(const std::string& name, const Caller& caller, bool stay);
  // Whether a container whose programs are `user`'s may start in the share now. Errors: as entry(); denied, where the
  // share does not admit that user; conflict while it is paused, drained, over or full.
  [[nodiscard]] Result<void> check_container(const std::string& name, const tenancy::Visitor& user,
                                             const Caller& caller);
  // Nothing where the share is not there, or not under MPS.
  [[nodiscard]] std::optional<MpsShare> mps_share(const std::string& name) const;

  [[nodiscard]] const std::vector<tenancy::Quota>& quotas() const { return shares_.quotas(); }
  // Sets a quota and returns all of it. Naming::all: limits not named are removed; some: they stay. Errors: denied;
  // usage if it would bound nothing.
  enum class Naming { all, some };
  [[nodiscard]] Result<tenancy::Quota> set_quota(const tenancy::QuotaChange& change, Naming naming,
                                                 const Caller& caller);
  // Errors: denied; not_found.
  [[nodiscard]] Result<void> remove_quota(tenancy::Quota::Subject subject, std::uint32_t id, const Caller& caller);

  // Call them around each reading of the driver, whatever caused it: they settle what drains and inform limiters.
  void before_reading();
  void after_reading(const observe::DriverMemory& memory);
  // Returns descriptors for a limiter of the share, beside those of the share itself (guest/ledger/registration.hpp).
  [[nodiscard]] std::vector<int> handed(const std::string& share);

  // Reaps the dead, then adds what the ledgers say, including those of runs without the daemon.
  void hand_ledgers(observe::JoinInput& input);
  // The commands that wait in shares; some may have ended.
  [[nodiscard]] std::vector<RunInShare> runs() const;
  // What only the node knows of a snapshot's shares: leases, owners' names, what is broken; and of its GPUs: policies,
  // which are off from here on where the snapshot has programs without turns.
  void finish(snapshot::Snapshot& snapshot);
  // Call it about once a second: ends shares that have expired, and reports idle ones.
  void keep_time(const snapshot::Snapshot& latest, std::int64_t now_unix_s);

  // Sets and stores which share gets the GPU when several want it: fair, priority, off; default: as the configuration
  // says. `void_promises`: even if promises on it are no longer kept (void_promises.hpp). Errors: denied; usage;
  // not_found; of the store; conflict, with those promises.
  [[nodiscard]] Result<void> set_gpu_policy(const std::string& uuid, const std::string& policy, bool void_promises,
                                            const Caller& caller);
  // Sets what the configuration says, for all GPUs without another policy.
  void set_usual_policy(schedule::Policy policy);

  [[nodiscard]] tenancy::Shares& shares() { return shares_; }
  [[nodiscard]] const tenancy::Shares& shares() const { return shares_; }
  // Calls back when an operation, or the end of its time, makes a share, removes it, or opens or closes it to
  // newcomers. All may stay unset, as may the processes and the arbiter below.
  void watch_shares(std::function<void(const std::string& name)> made,
                    std::function<void(const std::string& name)> gone,
                    std::function<void(const std::string& name)> changed);
  void allow_shares_per_user(std::size_t most) { options_.shares_per_user = most; }
  void ask_for_processes(tenancy::Processes* tenants) { tenants_ = tenants; }
  // The arbiter, which outlives this.
  void arbitrate_by(Arbitration* arbitration) { arbitration_ = arbitration; }
  // Call it when the share's socket is open: the arbiter listens to its bell from now on.
  [[nodiscard]] Result<void> arbitrate(const std::string& share, UniqueFd bell);
  // Replaces a bell that a process of the share has spoiled, and writes an event.
  [[nodiscard]] Result<void> hear_anew(const std::string& share, UniqueFd bell);
  // Thread-safe.
  [[nodiscard]] std::int64_t arbiter_silence_ns() const {
    return arbitration_ == nullptr ? 0 : arbitration_->silence_ns();
  }
  // Writes what the shares on this share's GPUs may take while no daemon runs. Call it when its first process has
  // joined, or its last has left.
  void divide_unattended(const std::string& name);
  // As above for all GPUs.
  void divide_unattended();
  // Reports what the share was refused since the last report, as keep_time() does: a program of it has ended, and its
  // user may ask why.
  void look_for_refusals(const std::string& name);
  // Thread-safe.
  [[nodiscard]] std::optional<Arbitration::Figures> arbiter_figures() const {
    return arbitration_ == nullptr ? std::nullopt : std::optional(arbitration_->figures());
  }

 private:
  Node(tenancy::Shares shares, NodeOptions options, observe::EventLog& events)
      : shares_(std::move(shares)), options_(std::move(options)), events_(&events) {}

  Result<tenancy::LiveShare*> changeable(const std::string& name, const Caller& caller);
  void follow_turns(snapshot::Snapshot& snapshot);
  [[nodiscard]] std::uint32_t sliced_processes(const snapshot::Snapshot& snapshot, const std::string& uuid) const;
  [[nodiscard]] Result<void> check_compute_mode(const tenancy::Share& share) const;
  void follow_promises(snapshot::Snapshot& snapshot);
  void check_page(const std::string& name, tenancy::LiveShare& live, std::uint64_t now_ns);
  [[nodiscard]] std::uint64_t largest_card_of(const tenancy::Share& share) const;
  // `asked`: see Processes::give_back_dead().
  void give_back_dead(const std::string& name, tenancy::LiveShare& live, std::size_t& asked) const;
  bool has_pages_only(const std::string& name, const Caller& caller) const;
  Result<void> name_is_free(const std::string& name, const Caller& caller);
  Result<void> has_room_for_one_more(const Caller& caller) const;
  // Returns the share of an order, if the caller may have such a one at all; does not look for room.
  Result<tenancy::Share> asked_for(const ShareRequest& order, const Caller& caller,
                                   const std::vector<snapshot::Gpu>& gpus) const;
  // Limits what a new share's order does not name to what quotas allow.
  void fit_to_quotas(const ShareRequest& order, tenancy::Share& share) const;
  // Checks weight and class of a non-administrator if no quota sets them; `before`: null for a new share.
  Result<void> may_have_rank(const tenancy::Share* before, const tenancy::Share& wanted, const Caller& caller) const;
  Result<void> make(tenancy::Share share);
  Result<tenancy::Share> wanted_by(const std::string& name, const ShareRequest& order, const Caller& caller,
                                   const std::vector<snapshot::Gpu>& gpus);
  // For class best-effort under the policy priority. Errors: conflict.
  [[nodiscard]] Result<void> keeps_its_promise(const ShareRequest& order, const tenancy::Share* before,
                                               const tenancy::Share& wanted) const;
  Result<void> goes_first(const tenancy::Share& share, const Caller& caller) const;
  Queue::Books books() const;
  void serve_queue();
  void show_queue(snapshot::Snapshot& snapshot) const;
  void expire(const std::string& name, tenancy::LiveShare& live);
  [[nodiscard]] bool is_empty_for_good(const tenancy::LiveShare& live, const snapshot::Share& seen,
                                       std::int64_t now_unix_s);
  void end_those(const std::vector<std::string>& over, std::int64_t now_unix_s);
  [[nodiscard]] std::string next_costly(const std::vector<std::string>& over);
  void forget(const std::string& name);
  void divide_unattended(const std::vector<tenancy::DeviceShare>& devices);
  void tell_refusals(const std::string& name, const tenancy::LiveShare& live, const snapshot::Share& seen);
  void tell_waiting(const tenancy::LiveShare& live, const snapshot::Share& seen);
  void tell_frozen(const tenancy::LiveShare& live, const snapshot::Share& seen);
  void tell_room();
  void tell_idle(const tenancy::LiveShare& live, const snapshot::Share& seen);
  void tell_given_up(const std::string& name, const tenancy::LiveShare& live, bool driver_seen);
  [[nodiscard]] Result<void> remove_pages(const std::string& name, std::uint32_t by = 0);
  // `owner_uid`: of a share that is already gone; else it is looked up.
  void tell(const std::string& kind, const std::string& severity, const std::string& share, std::uint32_t uid,
            const std::string& text, std::optional<std::uint32_t> owner_uid = {});

  tenancy::Shares shares_;
  NodeOptions options_;
  observe::EventLog* events_;
  std::function<void(const std::string&)> made_, gone_, changed_;
  tenancy::Processes* tenants_ = nullptr;
  Arbitration* arbitration_ = nullptr;
  schedule::Policy usual_policy_ = schedule::Policy::fair;
  DeadProcessMemory dead_process_memory_;
  MpsActivity mps_activity_, slice_activity_;
  std::map<std::string, std::string> compute_modes_;  // by UUID, of the last snapshot
  observe::Promises promises_;
  std::map<std::string, observe::PageCheck> checks_;  // by share
  std::map<std::string, std::uint64_t> card_bytes_;   // by UUID, of each GPU that has answered once
  std::unique_ptr<NodePages> node_pages_ = std::make_unique<NodePages>();
  std::string last_sought_;  // the damaged share past its end that was last checked for users
  Queue queue_;
  bool told_low_room_ = false;
  std::set<std::string> told_idle_, told_waiting_, told_broken_;
  std::map<std::string, std::uint64_t> told_frozen_;  // with their count of thaws by then
  // By share and GPU: how many were reported.
  std::map<std::string, std::map<std::string, std::uint64_t>> refusals_;
  std::map<std::string, std::uint64_t> given_up_;  // by share: bytes of the dead that were reported
};

}  // namespace headgate::node
