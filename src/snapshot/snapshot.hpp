// One picture of the node: plain values, made by one writer and read by many (API, metrics, views, audit, arbiter).
// Units are in the names; a ratio is 0..1, of one GPU; times are nanoseconds, `_unix_ns` of CLOCK_REALTIME. An optional is
// empty where the driver does not tell.
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
  std::uint64_t reserve_bytes = 0;  // of each GPU, never sold
  bool nvml_released = false;       // `headgate gpu release`: what NVML says is not known meanwhile

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
  std::uint64_t memory_sold_bytes = 0;          // limits of the shares on it, together
  std::uint64_t memory_shares_bytes = 0;        // used by shares, by their ledgers; what drains is in it
  std::uint64_t memory_unattributed_bytes = 0;  // used, but by no share
  std::uint32_t unlimited_shares = 0;           // with no memory limit: nothing of the card is certainly free then
  double compute_sold_ratio = 0;                // guarantees, together
  // The largest share that headgated would still make here; empty without it.
  std::optional<std::uint64_t> memory_unsold_bytes;
  std::optional<double> compute_unsold_ratio;
  std::optional<double> busy_ratio, memory_busy_ratio;  // NVML's sense: some kernel ran
  std::optional<std::uint32_t> temperature_celsius, power_mw, power_limit_mw, sm_clock_mhz, memory_clock_mhz;
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
  std::string compute_mode;  // default, exclusive process, prohibited; empty: not told
  std::string policy;        // of the arbiter: fair, priority, off

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct Refusal {
  std::uint64_t asked_bytes = 0, used_bytes = 0, unix_ns = 0;
  std::uint32_t pid = 0;
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

struct ShareDevice {
  std::string uuid;
  std::optional<std::uint64_t> memory_limit_bytes;  // empty: none
  std::uint64_t memory_used_bytes = 0;              // residual in it
  std::uint64_t memory_residual_bytes = 0, memory_draining_bytes = 0, memory_peak_bytes = 0;
  std::uint64_t memory_frozen_bytes = 0;  // of what is used: on the host until its process calls the driver again
  std::uint64_t host_limit_bytes = 0, host_used_bytes = 0;
  std::uint64_t refusals = 0;
  std::optional<Refusal> last_refusal;
  double compute_ceiling_ratio = 1, compute_guarantee_ratio = 0;
  std::optional<double> compute_burst_ratio;  // the ceiling while no other share has work; empty: no other
  std::uint32_t weight = 0;
  std::string priority_class;  // best-effort, normal, latency
  std::uint64_t held_ns = 0, estimated_ns = 0, copy_ns = 0, throttled_ns = 0;
  std::uint64_t neighbours_ns = 0;  // other shares' work that this one was first taken to have done; not in held_ns
  std::uint64_t throttled_launches = 0, passed_in_debt = 0, launches = 0;
  std::uint64_t last_throttle_unix_ns = 0;
  std::uint64_t waiting_ns = 0;  // how long a launch that still waits has waited, where that is seconds; 0: none has
  std::optional<double> held_ratio, throttled_ratio;  // since the picture before

  friend bool operator==(const ShareDevice&, const ShareDevice&) = default;
};

struct Share {
  std::string name;
  std::uint32_t owner_uid = 0;
  std::string owner;        // user name, or the uid where it has none
  std::string state;        // ok, throttled, refused, idle, frozen, paused, draining, empty, broken
  std::string level;        // observe, hook, hook+container, mps, mig
  std::string fail_policy;  // open, closed
  std::string admit;        // now, ask: an outside scheduler decides on each process
  std::string on_oom;       // fail, or wait=30s: what becomes of an allocation for which there is no room
  std::string problem;      // broken: why
  std::string gang;         // that it has its turns with; empty: none
  bool created = false;     // by `share create`: it stays when its last process ends
  std::uint64_t created_unix_ns = 0;
  std::uint64_t idle_ns = 0;                     // since it last used a GPU; 0 while it does
  std::optional<std::uint64_t> ttl_ns;           // left
  std::optional<std::uint64_t> freeze_after_ns;  // so long without a call, a process moves its memory to the host
  std::uint32_t processes = 0;
  std::uint32_t frozen_processes = 0;    // idle, with their memory on the host
  std::uint64_t freezes = 0, thaws = 0;  // how often memory of its processes went to the host, and came back
  std::vector<ShareDevice> devices;

  friend bool operator==(const Share&, const Share&) = default;
};

struct ProcessDevice {
  std::string uuid;
  std::optional<std::uint64_t> driver_bytes;  // NVML's figure
  std::uint64_t ledger_bytes = 0;             // what its share's ledger says
  std::optional<double> busy_ratio;           // NVML's sense

  friend bool operator==(const ProcessDevice&, const ProcessDevice&) = default;
};

struct Process {
  std::uint32_t pid = 0;                      // the host's
  std::optional<std::uint32_t> pid_in_share;  // in its own pid namespace, where that is another
  std::string share;                          // empty: none
  std::uint32_t uid = 0;
  std::string user, command;
  std::string where;  // "host", "docker 4f2a...", "pod ml/train-0", "slurm 1234.0", "unit x.service"
  std::string level;
  std::string finding;  // what the audit holds against it; empty: nothing
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

struct Snapshot {
  std::uint64_t taken_unix_ns = 0;
  std::uint64_t taken_ns = 0;  // CLOCK_MONOTONIC
  Node node;
  std::vector<Gpu> gpus;           // by index
  std::vector<Share> shares;       // by name
  std::vector<Process> processes;  // by share, then pid

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

}  // namespace headgate::snapshot
