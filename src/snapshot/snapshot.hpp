// One snapshot of the node: plain values, made by one writer and read by many (API, metrics, views, audit, arbiter).
// Units are in the names; a ratio is 0..1, of one GPU; times are nanoseconds, `_unix_ns` of CLOCK_REALTIME. An optional
// is empty where the driver does not tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headgate::snapshot {

struct Node {
  std::string name;     // host name
  std::string version;  // of headgated, with its commit: version_text()
  std::string driver_version;
  bool simulated = false;
  std::string level;  // the weakest enforcement among its shares: observe, hook, hook+container, mps, mig
  std::uint32_t gpus = 0, shares = 0, processes = 0;
  std::uint32_t unattended_processes = 0;  // that use a GPU outside every share
  std::uint64_t started_unix_ns = 0;
  std::uint64_t reserve_bytes = 0;  // of each GPU, never committed
  std::string pid_space;       // pids here and there mean the same processes where this is the same; empty: unknown
  bool nvml_released = false;  // `headgate gpu release`, or no answer: what NVML says is not known

  friend bool operator==(const Node&, const Node&) = default;
};

struct XidCount {
  std::uint32_t xid = 0;
  std::uint64_t count = 0;
  friend bool operator==(const XidCount&, const XidCount&) = default;
};

// A part of a GPU that is cut by MIG, as the driver hands it to programs.
struct MigInstance {
  std::string uuid;
  std::string profile;  // "1g.18gb"; empty: not told
  std::optional<std::uint32_t> gpu_instance, compute_instance;
  std::optional<std::uint64_t> memory_total_bytes, memory_used_bytes;
  friend bool operator==(const MigInstance&, const MigInstance&) = default;
};

struct Gpu {
  std::string uuid;
  std::uint32_t index = 0;  // PCI order, as nvidia-smi counts
  std::string model, pci_bus_id;
  std::uint64_t memory_total_bytes = 0, memory_used_bytes = 0, memory_free_bytes = 0, memory_reserved_bytes = 0;
  std::uint64_t memory_committed_bytes = 0;     // limits of the shares on it, together
  std::uint64_t memory_shares_bytes = 0;        // used by shares, by their ledgers; what drains is in it
  std::uint64_t memory_unattributed_bytes = 0;  // used, but by no share
  std::uint32_t unlimited_shares = 0;           // with no memory limit: nothing of the card is certainly free then
  double compute_committed_ratio = 0;           // guarantees, and ceilings of class latency, together
  // The largest share that headgated would still make here; empty without it.
  std::optional<std::uint64_t> memory_uncommitted_bytes;
  std::optional<double> compute_uncommitted_ratio;
  std::optional<double> busy_ratio, memory_busy_ratio;           // NVML's sense: some kernel ran
  std::optional<double> encoder_busy_ratio, decoder_busy_ratio;  // the video engines, which nobody gates
  std::optional<double> sm_active_ratio;  // of all its SMs' time; empty without a daemon, which alone measures it
  std::optional<std::uint32_t> temperature_celsius, power_mw, power_limit_mw, sm_clock_mhz, memory_clock_mhz;
  // The limit that was asked for, where power_limit_mw is the one in force; what the card accepts, and its default.
  std::optional<std::uint32_t> power_limit_requested_mw, power_limit_min_mw, power_limit_max_mw, power_limit_default_mw;
  std::optional<bool> persistence;         // without it the driver forgets settings with its last program
  std::optional<std::uint64_t> energy_mj;  // since the driver was loaded
  std::vector<std::string> throttle_reasons;
  // Memory errors: since the driver was loaded, and in the card's life.
  std::optional<std::uint64_t> ecc_corrected_errors, ecc_uncorrected_errors;
  std::optional<std::uint64_t> ecc_lifetime_corrected_errors, ecc_lifetime_uncorrected_errors;
  std::vector<XidCount> xids;  // since headgated started
  std::optional<std::uint32_t> pcie_generation, pcie_width, nvlinks_active;
  std::optional<std::uint64_t> pcie_replays;
  // From the host and to it, over 20 ms of the last seconds; empty without a daemon, which alone measures it.
  std::optional<std::uint64_t> pcie_rx_bytes_per_second, pcie_tx_bytes_per_second;
  std::optional<std::uint64_t> nvlink_errors;  // of all links and all kinds that the driver counts, together
  // Data without the protocol's own, over all links, since the driver was loaded.
  std::optional<std::uint64_t> nvlink_rx_bytes, nvlink_tx_bytes;
  std::optional<bool> mig, ecc;
  std::vector<MigInstance> mig_instances;
  std::optional<double> half_precision_tflops;  // dense FP16, by data sheet or configuration
  std::string compute_mode;                     // default, exclusive process, prohibited; empty: not told
  std::string policy;                           // of the arbiter: fair, priority, off
  // Who says so: the configuration, or a command (`headgate gpu policy`), which outlives the daemon; empty without one.
  std::string policy_from;
  std::uint32_t waiting = 0;  // requests for shares that stand in line for room on it
  // What holds now: off for as long as processes of shares are clients of an MPS server there, else the policy.
  std::string policy_in_force;
  std::uint32_t mps_clients = 0;  // processes of shares that are such clients

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct Refusal {
  std::uint64_t asked_bytes = 0, used_bytes = 0, unix_ns = 0;
  std::optional<std::uint64_t> limit_bytes;  // the share's then; empty: it had none
  std::uint32_t pid = 0;
  std::string reason = "limit";  // or device_full: the driver had none left; policy: the share was being drained
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// Launches that took so long, and no less than the one before allows, to pass the gate.
struct LaunchDelay {
  std::optional<std::uint64_t> up_to_ns;  // empty: longer than all others
  std::uint64_t launches = 0;
  friend bool operator==(const LaunchDelay&, const LaunchDelay&) = default;
};

// A call of the driver that metering needs and that failed, as often.
struct HookErrors {
  std::string api;
  std::uint64_t count = 0;
  friend bool operator==(const HookErrors&, const HookErrors&) = default;
};

struct ShareDevice {
  std::string uuid;
  std::optional<std::uint64_t> memory_limit_bytes;  // empty: none
  std::uint64_t memory_used_bytes = 0;              // residual in it
  std::uint64_t memory_residual_bytes = 0, memory_draining_bytes = 0, memory_peak_bytes = 0;
  std::uint64_t context_bytes = 0;        // what a process's context takes there; 0: none was measured yet
  std::uint64_t memory_frozen_bytes = 0;  // of what is used: on the host until its process calls the driver again
  std::uint64_t host_limit_bytes = 0, host_used_bytes = 0;
  std::uint64_t refusals = 0;                                   // for all reasons
  std::uint64_t refusals_device_full = 0, refusals_policy = 0;  // of these
  std::optional<Refusal> last_refusal;
  double compute_ceiling_ratio = 1, compute_guarantee_ratio = 0;
  std::optional<double> compute_burst_ratio;  // the ceiling while no other share has work; empty: no other
  std::uint32_t weight = 0;
  std::string priority_class;  // best-effort, normal, latency
  // Its work is measured: it has a ceiling, or its GPU an arbiter. Else what is held and waited says nothing, and
  // held_ratio is empty.
  bool metered = true;
  std::uint64_t held_ns = 0, estimated_ns = 0, copy_ns = 0, throttled_ns = 0;
  std::uint64_t neighbours_ns = 0;  // other shares' work that this one was first taken to have done; not in held_ns
  std::uint64_t throttled_launches = 0, passed_in_debt = 0, launches = 0;
  std::vector<LaunchDelay> launch_delays;  // shortest first; what waited is told at once, the rest when it is measured
  std::vector<HookErrors> hook_errors;     // those that there were
  std::uint64_t last_throttle_unix_ns = 0;
  std::uint64_t waiting_ns = 0;  // how long a launch that still waits has waited, where that is seconds; 0: none has
  // throttled_ns, by what was waited for: resume, the share's turn, its ceiling, its own work sent before.
  std::uint64_t waited_pause_ns = 0, waited_turn_ns = 0, waited_ceiling_ns = 0, waited_work_ns = 0;
  std::optional<double> held_ratio, throttled_ratio;  // of the last second or so; throttled: of each process 1 at most
  // What became of its promise (compute_guarantee_ratio) over the last 10 s, of the GPU: had is GPU time held, wanted
  // the part of the time in which it had work or waited, short what the promise times wanted is above had. Empty
  // without a daemon, in the first second, and where its work is not measured.
  std::optional<double> had_ratio, wanted_ratio, short_ratio;
  std::uint64_t short_ns = 0;  // of GPU time, since this daemon has seen it: the sum of what was short
  std::string short_cause;     // why, in plain words; empty where no more than 2 points are short
  // Of the GPU's SMs, what its processes may have together as clients of an MPS server, by their thread percentages.
  // Empty: none is there, or one that may have all.
  std::optional<double> sm_ratio;
  // Where sm_ratio is: held_ratio of the SMs that its programs had meanwhile, so a part of the whole GPU.
  std::optional<double> sm_held_ratio;
  std::string waits_for;  // what most of throttled_ratio was: pause, turn, ceiling, work; empty: nothing, or not known

  friend bool operator==(const ShareDevice&, const ShareDevice&) = default;
};

struct Share {
  std::string name;
  std::uint64_t generation = 0;  // of its pages: one that was made anew under the same name has another. Not told
  std::uint32_t owner_uid = 0;
  std::string owner;        // user name, or the uid where it has none
  std::string state;        // ok, throttled, takes turns, full, idle, frozen, paused, draining, freeing, empty, broken
  std::string level;        // observe, hook, hook+container, mps, mig
  std::string fail_policy;  // open, closed
  std::string admit;        // now, ask: an outside scheduler decides on each process
  std::string on_oom;       // fail, or wait=30s: what becomes of an allocation for which there is no room
  std::string problem;      // broken: why
  std::string gang;         // that it has its turns with; empty: none
  std::string isolation;    // hook, mps, timeslice: what was asked for; `level` is what holds
  bool created = false;     // by `share create`: it stays when its last process ends
  std::uint64_t created_unix_ns = 0;
  std::uint64_t idle_ns = 0;                     // since it last used a GPU, or waited for it; 0 while it does
  std::optional<std::uint64_t> ttl_ns;           // left
  bool expired = false;                          // its time is over: nobody enters, and it goes with its last program
  std::optional<std::uint64_t> freeze_after_ns;  // so long without a call, a process moves its memory to the host
  std::optional<std::uint64_t> idle_notice_ns;   // an event tells when it used no GPU for so long
  bool overcommit = false;                       // overcommitted: promised nothing
  bool oversubscribe = false;                    // its programs see its host memory as the card's
  bool everyone = false;                         // whoever reaches its directory may enter
  std::vector<std::string> users, groups;        // who else may enter, by name, or by number where there is none
  std::vector<std::uint32_t> uids, gids;         // the same by number
  std::uint32_t processes = 0;
  std::uint32_t frozen_processes = 0;  // idle, with their memory on the host
  // Of its CDI file, by which engines start containers in it: where it lies; and why there is none, or it is not up to
  // date. Both empty without a daemon.
  std::string cdi_file, cdi_problem;
  std::uint64_t freezes = 0, thaws = 0;  // how often memory of its processes went to the host, and came back
  std::vector<ShareDevice> devices;

  friend bool operator==(const Share&, const Share&) = default;
};

struct ProcessDevice {
  std::string uuid;
  std::optional<std::uint64_t> driver_bytes;  // NVML's figure
  std::uint64_t ledger_bytes = 0;             // what its share's ledger says
  std::optional<double> busy_ratio;           // NVML's sense
  bool mps = false;                           // a client of an MPS server there
  std::uint64_t unexplained_bytes = 0;        // of ledger_bytes: taken by no call that its limiter knows of

  friend bool operator==(const ProcessDevice&, const ProcessDevice&) = default;
};

// A process that the audit has frozen (audit.policy = "freeze") and nobody has let go on since.
struct Freeze {
  std::string cgroup;  // that was frozen: whoever else is in it stands still too
  std::string thaw;    // the command by which root ends it
  friend bool operator==(const Freeze&, const Freeze&) = default;
};

struct Process {
  std::uint32_t pid = 0;                      // the host's
  std::optional<std::uint32_t> pid_in_share;  // in its own pid namespace, where that is another
  std::string share;                          // empty: none
  std::uint32_t uid = 0;
  std::string user, command;
  std::string where;  // "host", "docker 4f2a...", "pod ml/train-0", "slurm 1234.0", "unit x.service"
  std::string level;
  bool claimed =
      false;  // that this process is in the share, nobody says yet but the share's own page, which its tenants write
  std::string finding;           // what the audit holds against it; empty: nothing
  std::optional<Freeze> freeze;  // empty: the audit has not frozen it, or it goes on
  std::vector<ProcessDevice> devices;

  friend bool operator==(const Process&, const Process&) = default;
};

struct Event {
  std::uint64_t sequence = 0;
  std::uint64_t unix_ns = 0;
  std::string kind;      // share.created, share.set, process.started, memory.refused, audit.outside, gpu.xid, ...
  std::string severity;  // info, warn, error
  std::string share = {}, uuid = {};
  std::uint32_t pid = 0, uid = 0;
  std::optional<std::uint32_t> owner_uid = {};  // of the share, when this happened: its name may be another's since
  std::string text = {};                        // one sentence

  friend bool operator==(const Event&, const Event&) = default;
};

// A request for a share that stands in line until there is room (`headgate run --wait`).
struct Waiting {
  std::uint32_t place = 0;  // 1: the first of the node
  std::string share;        // the name that it is to have
  std::uint32_t owner_uid = 0;
  std::string owner;                                // as Share::owner
  std::vector<std::string> uuids;                   // of the GPUs that it is for
  std::optional<std::uint64_t> memory_limit_bytes;  // on each; empty: all of it
  double compute_guarantee_ratio = 0;
  std::uint64_t waited_ns = 0;
  std::string reason;  // one sentence

  friend bool operator==(const Waiting&, const Waiting&) = default;
};

struct Snapshot {
  std::uint64_t taken_unix_ns = 0;
  std::uint64_t taken_ns = 0;  // CLOCK_MONOTONIC
  Node node;
  std::vector<Gpu> gpus;           // by index
  std::vector<Share> shares;       // by name
  std::vector<Process> processes;  // by share, then pid
  std::vector<Waiting> waiting;    // by place

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

}  // namespace headgate::snapshot
