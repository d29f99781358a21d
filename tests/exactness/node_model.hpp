// A modelled node for the arbiter's tests: the shares' launches pass the real meter and an arbitrated gate, on the
// simulator's engine, in virtual time. Doorbells and the wake-ups of arbiter and waiting threads are late by recorded
// amounts.
//
// The arbiter sees only what the daemon could read from the pages: held_ns and coverage of the accounts, the pacer's
// estimate of work in flight, the fields that launching threads write. It never sees the engine's truth.
#pragma once

#include <map>
#include <memory>
#include <queue>
#include <span>
#include <vector>

#include "exactness/model.hpp"
#include "guest/limiter/compute/multi_gpu_rules.hpp"
#include "guest/limiter/compute/unattended.hpp"
#include "node/gpu_board.hpp"
#include "schedule/arbiter.hpp"

namespace headgate::limiter::model {

// Behaviour of each process of a share: launches `batch` kernels, waits for the last, then pauses for gap_ns. Batch 0:
// launches without a pause.
struct Load {
  KernelMix mix;
  int batch = 0;
  std::int64_t gap_ns = 0;
  std::int64_t every_ns = 0;  // with a batch: period instead of a pause; starts at once if late
  std::int64_t from_ns = 0, until_ns = 1'000'000'000'000;
  // A collective: after each kernel, another one spins until the share's processes on all GPUs have got this far.
  bool collective = false;
  std::int64_t lag_ns = 0;  // delay of the share's start from one GPU to the next
  bool copies = false;      // copies of 32 MiB to the device instead of kernels; they pass no gate
  int streams = 1;          // per process, used in turn
  int depth = 0;            // unfinished launches of a process at most; 0: any number
  int nodes = 1;            // kernels per launch; more than 1: a graph, and its call blocks while the queue is full
};

struct NodeShare {
  std::vector<schedule::Terms> gpus;
  Load load;
  std::string gang{};
  int processes = 1;  // per GPU
  std::uint32_t ceiling_ppm = ledger::kWholeGpu;
  std::uint32_t other_gpu = ~0u;  // GPU on which its processes do this instead
  Load other_load{};
};

struct NodeSetup {
  std::vector<NodeShare> shares;
  std::uint32_t gpus = 1;
  schedule::Policy policy = schedule::Policy::fair;
  std::span<const std::int64_t> lateness = recorded_lateness();
  std::uint64_t seed = 1;
  std::uint64_t slice_ns = 0, switch_ns = 0;  // of the GPU, as in sim::Profile; 0: the profile's
};

class Node : public Hardware {
 public:
  explicit Node(const NodeSetup& setup);
  ~Node();
  void run(std::int64_t until_ns);

  // Truth since the last mark().
  void mark();
  double held_percent(std::size_t share, std::uint32_t gpu = 0) const;
  double used_percent(std::uint32_t gpu = 0) const;  // by all processes
  double copied_percent(std::size_t share) const;    // since the start
  std::uint64_t kernels(std::size_t share) const;
  // Returns each batch's time from when it was due until its last kernel ended; sorted.
  std::vector<std::int64_t> latencies(std::size_t share) const;

  // Replaces the arbiter by a new one that finds gates and virtual times in the pages.
  void restart_arbiter();
  void set_policy(schedule::Policy policy);
  // Ends the daemon. Its shares' limiters hold each to its part (ppm, by shares) of its GPUs in a span of each cycle, as
  // turns.cpp does.
  void end_daemon(std::span<const std::uint32_t> parts_ppm);
  // Live changes of a share: its terms on all its GPUs and its ceiling; pause and resume. kill() ends its first living
  // process with SIGKILL and returns that process's GPU, or the number of GPUs if none is left.
  void change(std::size_t share, const std::vector<schedule::Terms>& terms, std::uint32_t ceiling_ppm);
  void pause(std::size_t share, bool paused);
  std::uint32_t kill(std::size_t share);

  // Return the time that the share held on the GPU since the start, by its account and in truth; ns. The account tells
  // until when, in ns since the start.
  ledger::HeldTime account(std::size_t share, std::uint32_t gpu) const;
  // Returns for how long the share wanted GPU 0, as the arbiter counts it; ns.
  std::int64_t wanted_ns(std::size_t share) const { return arbiter_->wanted_ns(entries_[share].id, 0); }
  std::int64_t held_ns(std::size_t share, std::uint32_t gpu) const {
    return static_cast<std::int64_t>(truth_ns(share, gpu));
  }

  std::uint64_t decisions = 0, gate_writes = 0;

 private:
  void start_arbiter();
  struct Tenant;  // one process
  struct Entry {
    std::uint32_t share = 0, gpu = 0;
    schedule::ShareId id = schedule::kNoShare;
    std::unique_ptr<ledger::ComputeAccount> account;
    std::unique_ptr<ledger::GpuPage> marks = std::make_unique<ledger::GpuPage>();
    schedule::Gate gate = schedule::Gate::open_notify;
    std::int64_t batch_ns = 0, opens_ns = 0;
    bool is_ending() const { return schedule::is_closed(gate) && batch_ns == schedule::kEndingNs; }
    bool paused = false;
    // Without a daemon.
    Span span{};
    std::uint32_t part_ppm = 0;
    std::unique_ptr<SparseUse> use = std::make_unique<SparseUse>();
    std::int64_t virtual_ns = 0;  // as in the policy page
    // Written by the share's limiters for the arbiter.
    bool told = false;
    std::int64_t dry_ns = 0;
    std::uint64_t dry_spells = 0, requests = 0;
    std::vector<std::size_t> tenants;
    std::int64_t idle_charged = 0, turn_wall = 0;
  };
  struct Turn {
    std::int64_t at_ns;
    std::uint64_t number;
    std::size_t actor;  // 0: the arbiter; then thread and settler of each tenant
    bool operator>(const Turn& other) const { return std::tie(at_ns, number) > std::tie(other.at_ns, other.number); }
  };
  void turn(std::size_t actor, std::int64_t at_ns) { turns_.push({at_ns, ++turn_number_, actor}); }
  std::int64_t late() { return setup_.lateness[random_() % setup_.lateness.size()]; }

  void come_back(std::size_t index, std::int64_t at_ns);
  void look_again(std::size_t index);
  void add_tenant(std::size_t entry);
  void client(std::size_t index);
  bool next_kernel(Tenant& tenant, std::size_t index);
  static bool dry(Tenant& tenant);
  bool wait_for_end(Tenant& tenant, std::size_t index, std::uint64_t behind);
  void push_rest(Tenant& tenant, std::size_t index);
  void wake_parked(Entry& entry);
  bool passes_gate(Tenant& tenant, Entry& entry, std::size_t index, std::int64_t est_ns);
  bool passes_without_daemon(Tenant& tenant, Entry& entry, std::size_t index, std::int64_t est_ns);
  std::vector<RankPlace> other_ranks(const Entry& mine) const;
  std::int64_t rank_gate_ns(Tenant& tenant, Entry& entry, std::span<const RankPlace> others, std::int64_t est_ns);
  void copy(Tenant& tenant, std::size_t index);
  void launch(Tenant& tenant, Entry& entry, bool alone);
  void spin_for(Tenant& tenant, sim::Command& command);
  bool has_work(const Entry& entry) const;
  void settler(std::size_t index);
  void wake_settler(std::size_t index);
  void ring();
  void arbitrate();
  void look(std::int64_t now_ns);
  schedule::Use use_of(const Entry& entry, std::int64_t now_ns) const;
  std::int64_t idle_ns(std::uint32_t gpu, std::int64_t from_ns, std::int64_t to_ns) const;
  std::uint64_t truth_ns(std::size_t share, std::uint32_t gpu) const;

  std::unique_ptr<schedule::Arbiter> arbiter_;
  std::map<std::uint32_t, std::int64_t> ranks_until_ns_;  // per share
  NodeSetup setup_;
  std::mt19937_64 random_;
  // As headgated maintains them: each share marks its own page.
  struct Board {
    std::unique_ptr<ledger::GpuPage> page = std::make_unique<ledger::GpuPage>();
    node::GpuBoard board{*page};
  };
  void tell_boards();
  void sleep_until(std::int64_t at_ns);
  bool rung_ = false, gone_ = false;
  std::int64_t decision_due_ns_ = 0, decided_ns_ = 0;
  std::vector<Board> boards_;
  node::BoardTimes board_times_;
  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<Tenant>> tenants_;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
  std::uint64_t turn_number_ = 0;
  std::int64_t rung_ns = 0;  // when the last ring of the doorbell will be served
  std::int64_t arbiter_due_ns_ = schedule::kNever;
  std::int64_t marked_ns_ = 0;
  std::vector<std::uint64_t> marked_;
  std::vector<std::uint64_t> marked_kernels_;
};

}  // namespace headgate::limiter::model
