// The operations of a node: what the API, and through it the command, may ask headgated to do. Each checks who asks,
// does it, and writes an event. For the daemon's loop only; what the observer's thread needs is handed over with
// hand_ledgers().
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
  std::vector<snapshot::Gpu> gpus;   // as the driver told at the start
  GpuThroughput cards;               // the operator's own, for shares in TFLOPS
  bool mps_exclusive = false;        // a GPU with a share under MPS is left to one owner's shares under MPS
  std::size_t shares_per_user = 64;  // of a user who is no administrator and for whom no quota counts shares
};

// What a program must be told to enter a share.
struct Entry {
  std::string runtime_dir, share, directory;
  std::vector<std::string> uuids;
  std::string simulated_dir;  // empty on a real node
  // CUDA_MPS_ACTIVE_THREAD_PERCENTAGE of a program in it that is to be a client of an MPS server: its highest ceiling,
  // 1..100.
  std::uint32_t thread_percentage = 100;
  // What the daemon adds for how the share is isolated; the caller's own environment does not replace it.
  std::vector<std::pair<std::string, std::string>> variables = {};
};

// What is needed to start the MPS server of a share.
struct MpsShare {
  std::string name, uuid;
  std::uint32_t owner_uid = 0;
  std::uint32_t thread_percentage = 100;
  std::optional<std::uint64_t> memory_limit_bytes;
  bool low_priority = false;  // of class best-effort
};

class Node {
 public:
  // Adopts the shares that are there. Errors: of the store or the runtime directory.
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
  // As create(), as soon as there is room, behind those who came before (queue.hpp); what of it is told at once, is
  // told before this returns. Errors: of create(), but for room; no_capacity, where it can never fit, or too many wait.
  [[nodiscard]] Result<std::uint64_t> wait_for_room(const ShareRequest& order, const Caller& caller,
                                                    const std::vector<snapshot::Gpu>& gpus, Queue::Events events);
  // By wait_for_room()'s ticket. Who does not wait any more has left.
  void leave_queue(std::uint64_t ticket);
  [[nodiscard]] Result<void> remove(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> pause(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> resume(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> drain(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> reclaim(const std::string& name, const Caller& caller);

  // `stay`: Shares::attach_run() of the caller, where it is known. Errors: not_found, where the caller may not enter it
  // or it is not there; failed, where its pages are broken.
  [[nodiscard]] Result<Entry> entry(const std::string& name, const Caller& caller, bool stay);
  // Whether a container whose programs are `user`'s may start in the share now. Errors: as entry(); denied, where the
  // share does not admit that user; conflict while it is paused, drained, over or full.
  [[nodiscard]] Result<void> check_container(const std::string& name, const tenancy::Visitor& user,
                                             const Caller& caller);
  // Nothing where the share is not there, or not under MPS.
  [[nodiscard]] std::optional<MpsShare> mps_share(const std::string& name) const;

  [[nodiscard]] const std::vector<tenancy::Quota>& quotas() const { return shares_.quotas(); }
  // What the quota says from now on. Naming::all: what is not named bounds nothing; some: it stays. Errors: denied;
  // usage, where it would bound nothing.
  enum class Naming { all, some };
  [[nodiscard]] Result<tenancy::Quota> set_quota(const tenancy::QuotaChange& change, Naming naming,
                                                 const Caller& caller);
  // Errors: denied; not_found.
  [[nodiscard]] Result<void> remove_quota(tenancy::Quota::Subject subject, std::uint32_t id, const Caller& caller);

  // Around each reading of the driver, whoever wanted it: what drains is settled, and limiters are told.
  void before_reading();
  void after_reading(const observe::DriverMemory& memory);
  // Descriptors for a limiter of the share, beside those of the share itself (guest/ledger/registration.hpp).
  [[nodiscard]] std::vector<int> handed(const std::string& share);

  // What the ledgers say now, those of runs without the daemon too; reaps the dead first.
  void hand_ledgers(observe::JoinInput& input);
  // What only the node knows of a snapshot's shares: leases, owners' names, what is broken; and of its GPUs: policies,
  // which are off from here on where the snapshot has programs without turns.
  void finish(snapshot::Snapshot& snapshot);
  // Once a second or so: ends what is over, and says of shares that they are idle.
  void keep_time(const snapshot::Snapshot& latest, std::int64_t now_unix_s);

  // Who has the GPU when several shares want it: fair, priority, off, and it is kept; default: what the configuration
  // says, again. `void_promises`: also where promises on it are not kept any more (void_promises.hpp). Errors: denied;
  // usage; not_found; of the store; conflict, with those promises.
  [[nodiscard]] Result<void> set_gpu_policy(const std::string& uuid, const std::string& policy, bool void_promises,
                                            const Caller& caller);
  // What the configuration says, for all GPUs of which nobody has said anything else.
  void set_usual_policy(schedule::Policy policy);

  [[nodiscard]] tenancy::Shares& shares() { return shares_; }
  [[nodiscard]] const tenancy::Shares& shares() const { return shares_; }
  // Told of shares that come, go, and have another door by an operation or their time; and who knows the processes in
  // them. All may stay unset.
  void watch_shares(std::function<void(const std::string& name)> made,
                    std::function<void(const std::string& name)> gone,
                    std::function<void(const std::string& name)> changed);
  void allow_shares_per_user(std::size_t most) { options_.shares_per_user = most; }
  void ask_for_processes(tenancy::Processes* tenants) { tenants_ = tenants; }
  // Who decides on the GPUs; outlives this.
  void arbitrate_by(Arbitration* arbitration) { arbitration_ = arbitration; }
  // The share is at its door: the arbiter hears its bell from now on.
  [[nodiscard]] Result<void> arbitrate(const std::string& share, UniqueFd bell);
  // It has another bell, because a process of it spoiled the one before; that is told.
  [[nodiscard]] Result<void> hear_anew(const std::string& share, UniqueFd bell);
  // Thread-safe.
  [[nodiscard]] std::int64_t arbiter_silence_ns() const {
    return arbitration_ == nullptr ? 0 : arbitration_->silence_ns();
  }
  // Writes what the shares on this share's GPUs may take while no daemon runs: its first process has come, or its last
  // one has gone.
  void divide_unattended(const std::string& name);
  // The same of all GPUs.
  void divide_unattended();
  // Tells of what the share was refused since it was last told, as keep_time() does in its time: a program of it has
  // ended, and whoever started it may ask why.
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
  // The share of an order, if the caller may have one such at all; room is not looked for.
  Result<tenancy::Share> asked_for(const ShareRequest& order, const Caller& caller,
                                   const std::vector<snapshot::Gpu>& gpus) const;
  // A new share has no more of what its order does not name than quotas allow.
  void fit_to_quotas(const ShareRequest& order, tenancy::Share& share) const;
  // Weight and class, for who is no administrator, where no quota speaks of them; `before`: null of a new share.
  Result<void> may_have_rank(const tenancy::Share* before, const tenancy::Share& wanted, const Caller& caller) const;
  Result<void> make(tenancy::Share share);
  Result<tenancy::Share> wanted_by(const std::string& name, const ShareRequest& order, const Caller& caller,
                                   const std::vector<snapshot::Gpu>& gpus);
  // Of class best-effort under the policy priority. Errors: conflict.
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
  // `owner_uid`: of a share that is gone already; else it is looked up.
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
  std::string last_sought_;  // damaged share past its end whose users were looked for
  Queue queue_;
  bool told_low_room_ = false;
  std::set<std::string> told_idle_, told_waiting_, told_broken_;
  std::map<std::string, std::uint64_t> told_frozen_;  // with how often they had come back by then
  // By share and GPU: how many were told.
  std::map<std::string, std::map<std::string, std::uint64_t>> refusals_;
  std::map<std::string, std::uint64_t> given_up_;  // by share: bytes of the dead, told
};

}  // namespace headgate::node
