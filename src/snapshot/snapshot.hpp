// One snapshot of the node: plain values with one writer and many readers (API, metrics, views, audit, arbiter). Names
// contain units; ratios are 0..1 of one GPU; times are nanoseconds, `_unix_ns` of CLOCK_REALTIME. An optional is empty
// if the driver does not report it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "snapshot/fields.hpp"

namespace headgate::snapshot {

struct Node {
  std::string name;     // host name
  std::string version;  // headgated's, with its commit: version_text()
  std::string driver_version;
  bool simulated = false;
  std::string level;  // the weakest enforcement of its shares: observe, hook, hook+container, hook+driver, mps, mig
  std::uint32_t gpus = 0, shares = 0, processes = 0;
  std::uint32_t unattended_processes = 0;  // those that use a GPU outside all shares
  std::uint64_t started_unix_ns = 0;
  std::uint64_t reserve_bytes = 0;  // per GPU, never committed
  std::string pid_space;            // equal values mean that PIDs are comparable; empty: unknown
  bool nvml_released = false;       // by `headgate gpu release` or no answer: NVML's values are unknown

  friend bool operator==(const Node&, const Node&) = default;
};
HEADGATE_FIELDS(Node, name, version, driver_version, simulated, level, gpus, shares, processes, unattended_processes,
                started_unix_ns, reserve_bytes, pid_space, nvml_released)

struct XidCount {
  std::uint32_t xid = 0;
  std::uint64_t count = 0;
  friend bool operator==(const XidCount&, const XidCount&) = default;
};
HEADGATE_FIELDS(XidCount, xid, count)

// A MIG partition of a GPU, as the driver offers it to programs.
struct MigInstance {
  std::string uuid;
  std::string profile;  // "1g.18gb"; empty: unknown
  std::optional<std::uint32_t> gpu_instance, compute_instance;
  std::optional<std::uint64_t> memory_total_bytes, memory_used_bytes;
  friend bool operator==(const MigInstance&, const MigInstance&) = default;
};
HEADGATE_FIELDS(MigInstance, uuid, profile, gpu_instance, compute_instance, memory_total_bytes, memory_used_bytes)

struct Gpu {
  std::string uuid;
  std::uint32_t index = 0;  // PCI order, as in nvidia-smi
  std::string model, pci_bus_id;
  std::uint64_t memory_total_bytes = 0, memory_used_bytes = 0, memory_free_bytes = 0, memory_reserved_bytes = 0;
  std::uint64_t memory_committed_bytes = 0;     // sum of its shares' limits
  std::uint64_t memory_shares_bytes = 0;        // used by shares, by their ledgers; includes draining memory
  std::uint64_t memory_unattributed_bytes = 0;  // used, but not by a share
  std::uint32_t unlimited_shares = 0;           // those without a memory limit: then no memory is certain to be free
  double compute_committed_ratio = 0;           // sum of guarantees, and of ceilings of class latency
  // The largest share that headgated would still accept here; empty without headgated.
  std::optional<std::uint64_t> memory_uncommitted_bytes;
  std::optional<double> compute_uncommitted_ratio;
  std::optional<double> busy_ratio, memory_busy_ratio;           // as NVML defines it: some kernel ran
  std::optional<double> encoder_busy_ratio, decoder_busy_ratio;  // the video engines, which are not limited
  std::optional<double> sm_active_ratio;  // fraction of all its SMs' time; only a daemon measures it
  std::optional<std::uint32_t> temperature_celsius, power_mw, power_limit_mw, sm_clock_mhz, memory_clock_mhz;
  // The requested limit, if power_limit_mw is the one in force; the range that the GPU accepts, and its default.
  std::optional<std::uint32_t> power_limit_requested_mw, power_limit_min_mw, power_limit_max_mw, power_limit_default_mw;
  std::optional<bool> persistence;         // if off, the driver drops settings when its last program ends
  std::optional<std::uint64_t> energy_mj;  // since the driver was loaded
  std::vector<std::string> throttle_reasons;
  // Memory errors: since the driver was loaded, and over the GPU's life.
  std::optional<std::uint64_t> ecc_corrected_errors, ecc_uncorrected_errors;
  std::optional<std::uint64_t> ecc_lifetime_corrected_errors, ecc_lifetime_uncorrected_errors;
  std::vector<XidCount> xids;  // since headgated started
  std::optional<std::uint32_t> pcie_generation, pcie_width, nvlinks_active;
  std::optional<std::uint64_t> pcie_replays;
  // From and to the host, over 20 ms within the last seconds; only a daemon measures it.
  std::optional<std::uint64_t> pcie_rx_bytes_per_second, pcie_tx_bytes_per_second;
  std::optional<std::uint64_t> nvlink_errors;  // sum over all links and all kinds that the driver counts
  // Payload over all links since the driver was loaded.
  std::optional<std::uint64_t> nvlink_rx_bytes, nvlink_tx_bytes;
  std::optional<bool> mig, ecc;
  std::vector<MigInstance> mig_instances;
  std::optional<double> half_precision_tflops;  // dense FP16, from the data sheet or configuration
  std::uint32_t compute_capability_major = 0;   // 7: Volta; 0: unknown; not in JSON
  std::string compute_mode;                     // default, exclusive process, prohibited; empty: unknown
  std::string policy;                           // the arbiter's: fair, priority, off
  // Its origin: the configuration, or `headgate gpu policy`, which outlives the daemon; empty without a daemon.
  std::string policy_from;
  std::uint32_t waiting = 0;  // requests for shares that wait for room on it
  // The policy in force: off while processes of shares are clients of an MPS server there.
  std::string policy_in_force;
  std::uint32_t mps_clients = 0;  // how many such processes there are

  friend bool operator==(const Gpu&, const Gpu&) = default;
};
HEADGATE_FIELDS(Gpu, uuid, index, model, pci_bus_id, memory_total_bytes, memory_used_bytes, memory_free_bytes,
                memory_reserved_bytes, memory_committed_bytes, memory_shares_bytes, memory_unattributed_bytes,
                unlimited_shares, compute_committed_ratio, memory_uncommitted_bytes, compute_uncommitted_ratio,
                busy_ratio, memory_busy_ratio, encoder_busy_ratio, decoder_busy_ratio, sm_active_ratio,
                temperature_celsius, power_mw, power_limit_mw, power_limit_requested_mw, power_limit_min_mw,
                power_limit_max_mw, power_limit_default_mw, persistence, sm_clock_mhz, memory_clock_mhz, energy_mj,
                throttle_reasons, ecc_corrected_errors, ecc_uncorrected_errors, ecc_lifetime_corrected_errors,
                ecc_lifetime_uncorrected_errors, xids, pcie_generation, pcie_width, pcie_replays,
                pcie_rx_bytes_per_second, pcie_tx_bytes_per_second, nvlinks_active, nvlink_errors, nvlink_rx_bytes,
                nvlink_tx_bytes, mig, mig_instances, ecc, half_precision_tflops, compute_mode, policy, policy_from,
                waiting, policy_in_force, mps_clients)

struct Refusal {
  std::uint64_t asked_bytes = 0, used_bytes = 0, unix_ns = 0;
  std::optional<std::uint64_t> limit_bytes;  // the share's limit then; empty: none
  std::uint32_t pid = 0;
  std::string reason = "limit";  // or device_full: the driver had no memory left; policy: the share was draining
  friend bool operator==(const Refusal&, const Refusal&) = default;
};
HEADGATE_FIELDS(Refusal, asked_bytes, used_bytes, limit_bytes, unix_ns, pid, reason)

// The number of launches that the gate delayed by at most up_to_ns, and by more than the previous row's bound.
struct LaunchDelay {
  std::optional<std::uint64_t> up_to_ns;  // empty: longer than all bounds
  std::uint64_t launches = 0;
  friend bool operator==(const LaunchDelay&, const LaunchDelay&) = default;
};
HEADGATE_FIELDS(LaunchDelay, up_to_ns, launches)

// Failures of one driver call that metering needs.
struct HookErrors {
  std::string api;
  std::uint64_t count = 0;
  friend bool operator==(const HookErrors&, const HookErrors&) = default;
};
HEADGATE_FIELDS(HookErrors, api, count)

struct ShareDevice {
  std::string uuid;
  std::optional<std::uint64_t> memory_limit_bytes;  // empty: no limit
  std::uint64_t memory_used_bytes = 0;              // includes the residual
  std::uint64_t memory_residual_bytes = 0, memory_draining_bytes = 0, memory_peak_bytes = 0;
  std::uint64_t context_bytes = 0;        // size of one process's context; 0: not yet measured
  std::uint64_t memory_frozen_bytes = 0;  // part of what is used: on the host until its process calls the driver
  std::uint64_t host_limit_bytes = 0, host_used_bytes = 0;
  // The driver's own limit of each cgroup that is the share's alone, as read back, and what the driver counts in all of
  // them: also memory of programs that the limiter does not hold. Empty: no limit, or an older driver.
  std::optional<std::uint64_t> driver_limit_bytes, driver_used_bytes;
  std::uint64_t refusals = 0;                                   // for all reasons
  std::uint64_t refusals_device_full = 0, refusals_policy = 0;  // by reason
  std::optional<Refusal> last_refusal;
  double compute_ceiling_ratio = 1, compute_guarantee_ratio = 0;
  std::optional<double> compute_burst_ratio;  // the ceiling while no other share has work; empty: no burst
  std::uint32_t weight = 0;
  std::string priority_class;  // best-effort, normal, latency
  // Its work is measured, because it has a ceiling or its GPU an arbiter. Otherwise the held and waited times mean
  // nothing, and held_ratio is empty.
  bool metered = true;
  std::uint64_t held_ns = 0, estimated_ns = 0, copy_ns = 0, throttled_ns = 0;
  // How long before the reading held_ns is true: what others had of the time since is not known yet.
  std::uint64_t held_age_ns = 0;
  std::uint64_t neighbours_ns = 0;  // other shares' work first attributed to this share; not in held_ns
  std::uint64_t throttled_launches = 0, passed_in_debt = 0, launches = 0;
  std::vector<LaunchDelay> launch_delays;  // shortest first; waits are counted at once, other launches when measured
  std::vector<HookErrors> hook_errors;     // only those that occurred
  std::uint64_t last_throttle_unix_ns = 0;
  std::uint64_t waiting_ns = 0;  // how long the present launch has waited, if that is seconds; else 0
  // throttled_ns by cause: waiting for a resume, the share's turn, its ceiling, its own earlier work.
  std::uint64_t waited_pause_ns = 0, waited_turn_ns = 0, waited_ceiling_ns = 0, waited_work_ns = 0;
  std::optional<double> held_ratio, throttled_ratio;  // of the last second or so; throttled: of each process 1 at most
  // Parts of throttled_ratio: waits for the share's own limit, for its turn, and for its own earlier work.
  std::optional<double> limit_wait_ratio, turn_wait_ratio, work_wait_ratio;
  // Whether its promise (compute_guarantee_ratio) was kept in the last 10 s, as parts of the GPU. had: GPU time held.
  // wanted: the part of the time in which it had work or waited. short: promise times wanted, less had. Empty without a
  // daemon, in the first second, and if its work is not measured.
  std::optional<double> had_ratio, wanted_ratio, short_ratio;
  std::uint64_t short_ns = 0;  // GPU time: the accumulated shortfall since this daemon first saw it
  std::string short_cause;     // the cause in plain words; empty if at most 2 points are short
  // Fraction of the GPU's SMs that its MPS client processes may use together, by their thread percentages. Empty if
  // there is no such process, or one may use all.
  std::optional<double> sm_ratio;
  // Where sm_ratio is: held_ratio of the SMs that its programs had meanwhile, so a part of the whole GPU.
  std::optional<double> sm_held_ratio;
  std::string waits_for;  // what most of throttled_ratio was: pause, turn, ceiling, work; empty: nothing, or not known

  friend bool operator==(const ShareDevice&, const ShareDevice&) = default;
};
HEADGATE_FIELDS(ShareDevice, uuid, memory_limit_bytes, memory_used_bytes, memory_residual_bytes, memory_draining_bytes,
                memory_peak_bytes, memory_frozen_bytes, context_bytes, host_limit_bytes, host_used_bytes,
                driver_limit_bytes, driver_used_bytes, refusals, refusals_device_full, refusals_policy, last_refusal,
                compute_ceiling_ratio, compute_burst_ratio, compute_guarantee_ratio, weight, priority_class, metered,
                held_ns, held_age_ns, estimated_ns, neighbours_ns, copy_ns, throttled_ns, throttled_launches,
                passed_in_debt, launches, launch_delays, hook_errors, last_throttle_unix_ns, waiting_ns,
                waited_pause_ns, waited_turn_ns, waited_ceiling_ns, waited_work_ns, held_ratio, throttled_ratio,
                limit_wait_ratio, turn_wait_ratio, work_wait_ratio, had_ratio, wanted_ratio, short_ratio, short_ns,
                short_cause, sm_ratio, sm_held_ratio, waits_for)

struct Share {
  std::string name;
  std::uint64_t generation = 0;  // of its pages: changes if a share is created again under this name; not in JSON
  std::uint32_t owner_uid = 0;
  std::string owner;        // user name, or the uid if there is none
  std::string state;        // ok, throttled, takes turns, full, idle, frozen, paused, draining, freeing, empty, broken
  std::string level;        // observe, hook, hook+container, hook+driver, mps, mig
  std::string fail_policy;  // open, closed
  std::string admit;        // now, ask: an outside scheduler decides on each process
  std::string on_oom;       // fail, or wait=30s: what becomes of an allocation for which there is no room
  std::string problem;      // broken: why
  std::string gang;         // that it has its turns with; empty: none
  std::string isolation;    // hook, mps, timeslice: as requested; `level` is what is in force
  std::string mps_users;    // with isolation mps, whose programs its MPS server serves: owner, all; else empty
  bool created = false;     // by `share create`: it stays when its last process ends
  std::uint64_t created_unix_ns = 0;
  std::uint64_t idle_ns = 0;                     // since it last used or waited for a GPU; 0 while it does
  std::optional<std::uint64_t> ttl_ns;           // time left
  bool expired = false;                          // closed to new processes, removed after its last program ends
  std::optional<std::uint64_t> freeze_after_ns;  // idle this long, a process moves its memory to the host
  std::optional<std::uint64_t> idle_notice_ns;   // an event reports when it has not used a GPU for this long
  bool overcommit = false;                       // has no promises
  bool oversubscribe = false;                    // its programs see its host memory as GPU memory
  bool everyone = false;                         // open to all users that can reach its directory
  std::vector<std::string> users, groups;        // further users that may enter, by name, or by number if there is none
  std::vector<std::uint32_t> uids, gids;         // the same as numbers
  std::uint32_t processes = 0;
  std::uint32_t frozen_processes = 0;  // idle, with their memory on the host
  // The path of its CDI file, which engines use to start containers in it; and why it is missing or outdated. Both
  // empty without a daemon.
  std::string cdi_file, cdi_problem;
  // Why the driver, which could, does not hold the share's memory too; empty: it does, or it cannot.
  std::string driver_problem;
  std::uint64_t freezes = 0, thaws = 0;  // how often its processes' memory moved to the host and back
  std::vector<ShareDevice> devices;

  friend bool operator==(const Share&, const Share&) = default;
};
HEADGATE_FIELDS(Share, name, owner_uid, owner, state, level, fail_policy, admit, on_oom, problem, gang, isolation,
                mps_users, created, created_unix_ns, idle_ns, ttl_ns, expired, freeze_after_ns, idle_notice_ns,
                overcommit, oversubscribe, everyone, users, groups, uids, gids, processes, cdi_file, cdi_problem,
                driver_problem, frozen_processes, freezes, thaws, devices)

struct ProcessDevice {
  std::string uuid;
  std::optional<std::uint64_t> driver_bytes;  // from NVML
  std::uint64_t ledger_bytes = 0;             // from its share's ledger
  std::optional<double> busy_ratio;           // as NVML defines it
  bool mps = false;                           // is a client of an MPS server there
  std::uint64_t unexplained_bytes = 0;        // part of ledger_bytes: not allocated by any call its limiter knows

  friend bool operator==(const ProcessDevice&, const ProcessDevice&) = default;
};
HEADGATE_FIELDS(ProcessDevice, uuid, driver_bytes, ledger_bytes, busy_ratio, mps, unexplained_bytes)

// A process frozen by the audit (audit.policy = "freeze") and not resumed since.
struct Freeze {
  std::string cgroup;  // the frozen cgroup: its other processes are stopped too
  std::string thaw;    // the command with which root resumes it
  friend bool operator==(const Freeze&, const Freeze&) = default;
};
HEADGATE_FIELDS(Freeze, cgroup, thaw)

struct Process {
  std::uint32_t pid = 0;                      // on the host
  std::optional<std::uint32_t> pid_in_share;  // in its own pid namespace, if that differs
  std::string share;                          // empty: none
  std::uint32_t uid = 0;
  std::string user, command;
  std::string where;  // "host", "docker 4f2a...", "pod ml/train-0", "slurm 1234.0", "unit x.service"
  std::string level;
  bool claimed = false;          // membership is only known from the share's page, which its tenants can write
  std::string finding;           // the audit's finding; empty: none
  std::optional<Freeze> freeze;  // empty: not frozen, or resumed
  std::vector<ProcessDevice> devices;

  friend bool operator==(const Process&, const Process&) = default;
};
HEADGATE_FIELDS(Process, pid, pid_in_share, share, uid, user, command, where, level, claimed, finding, freeze, devices)

struct Event {
  std::uint64_t sequence = 0;
  std::uint64_t unix_ns = 0;
  std::string kind;      // share.created, share.set, process.started, memory.refused, audit.outside, gpu.xid, ...
  std::string severity;  // info, warn, error
  std::string share = {}, uuid = {};
  std::uint32_t pid = 0, uid = 0;
  std::optional<std::uint32_t> owner_uid = {};  // the share's owner at that time: its name may have been reused since
  std::string text = {};                        // one sentence

  friend bool operator==(const Event&, const Event&) = default;
};
HEADGATE_FIELDS(Event, sequence, unix_ns, kind, severity, share, uuid, pid, uid, owner_uid, text)

// A request for a share that waits in the queue for room (`headgate run --wait`).
struct Waiting {
  std::uint32_t place = 0;  // 1: first on the node
  std::string share;        // the requested name
  std::uint32_t owner_uid = 0;
  std::string owner;                                // like Share::owner
  std::vector<std::string> uuids;                   // of the requested GPUs
  std::optional<std::uint64_t> memory_limit_bytes;  // on each; empty: all of it
  double compute_guarantee_ratio = 0;
  std::uint64_t waited_ns = 0;
  std::string reason;  // one sentence

  friend bool operator==(const Waiting&, const Waiting&) = default;
};
HEADGATE_FIELDS(Waiting, place, share, owner_uid, owner, uuids, memory_limit_bytes, compute_guarantee_ratio, waited_ns,
                reason)

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
HEADGATE_FIELDS(Snapshot, taken_unix_ns, taken_ns, node, gpus, shares, processes, waiting)

}  // namespace headgate::snapshot
