// State of a simulated node at one instant. Plain bytes in one mapping shared by many processes; zeroed memory is an
// empty node.
//
// Writers: Engine alone writes everything not marked "owner", under the node's lock and through the journal. The owner
// of a stream or event (one process, under its own lock) writes rings, `requested` and counters without the node's
// lock; the engine only reads them.
#pragma once

#include <atomic>
#include <cstdint>

#include "sim/profile.hpp"

namespace headgate::sim {

inline constexpr std::uint32_t kNone = ~0u;
inline constexpr std::uint64_t kNever = ~0ull;

inline constexpr std::uint32_t kMaxProcesses = 256;
inline constexpr std::uint32_t kMaxAccounts = 640;  // per (process, device); dead ones stay listed until needed
inline constexpr std::uint32_t kMaxContexts = 512;
inline constexpr std::uint32_t kMaxStreams = 2048;
inline constexpr std::uint32_t kMaxEvents = 32768;
inline constexpr std::uint32_t kMaxFlags = 1024;
inline constexpr std::uint32_t kMaxShared = 4096;
inline constexpr std::uint32_t kMaxQueued = 1024;     // launches in a stream; then a launch blocks, as in a driver
inline constexpr std::uint32_t kRingCommands = 4096;  // of one stream; a graph launch is many commands
inline constexpr std::uint32_t kHistoryBuckets = 6144;
inline constexpr std::uint64_t kBucketNs = 10'000'000;

enum class CommandKind : std::uint32_t {
  kernel,
  copy_to_device,
  copy_to_host,
  copy_on_device,  // memset too
  record,
  wait_event,
  host_function,  // holds the stream until Engine::host_done
  set_flag,       // cuStreamWriteValue: writes `amount`, as wide as `detail` says
  wait_flag,      // cuStreamWaitValue: blocks the stream; compares flag and `amount` as `detail` says
};

// `detail` of set_flag and wait_flag: width (64 bits, else the lower 32) and comparison (cuda.h:
// CU_STREAM_WAIT_VALUE_*).
inline constexpr std::uint64_t kFlagWide = 1 << 8;
inline constexpr std::uint64_t kFlagAtLeast = 0, kFlagEqual = 1, kFlagAnd = 2, kFlagNor = 3, kFlagComparison = 7;

// `detail` of kernel: may start before its predecessor in the stream has ended (programmatic dependent launch).
inline constexpr std::uint64_t kOverlapsPredecessor = 1;
// Above it: the error (kernel_faults.hpp) with which the kernel ends its context; 0: none.
inline constexpr unsigned kFaultShift = 16;
inline constexpr std::uint64_t fault_detail(std::uint32_t error) { return std::uint64_t{error} << kFaultShift; }

// One entry of a stream's queue.
struct alignas(64) Command {
  std::uint64_t submit_ns = 0;  // node time of the call
  std::uint64_t order = 0;      // position among the context's commands, from 1, for legacy-stream rules
  std::uint64_t amount = 0;     // kernel: duration in ns; copies: bytes; record and wait_event: the record's number
  CommandKind kind = CommandKind::kernel;
  std::uint32_t sms = 1;        // kernel: SMs it occupies, 1..the device's
  std::uint32_t event = kNone;  // record, wait_event
  std::uint32_t event_generation = 0;
  std::uint32_t wait_flag = kNone;  // kernel: spins until this flag is not 0
  std::uint32_t set_flag = kNone;   // kernel: sets this flag when it ends
  std::uint64_t detail = 0;
  std::uint64_t place = 0;  // set by push(): places of the queue taken so far, its own included
};
static_assert(sizeof(Command) == 64);

// Twice as many places as may be queued: undoing a step moves a head back over commands that must still be there.
inline constexpr std::uint32_t kRingPlaces = 2 * kRingCommands;

struct Ring {
  std::atomic<std::uint64_t> tail;  // owner: commands pushed so far
  std::uint64_t pad[7];
  Command commands[kRingPlaces];  // owner
};

enum class StreamKind : std::uint32_t { unused, legacy, blocking, non_blocking };
enum class Phase : std::uint32_t { idle, kernel, copy, host };

struct alignas(64) Stream {
  StreamKind kind;
  std::uint32_t context;
  std::uint64_t head;          // commands completed so far
  Phase phase;                 // of the command at head
  std::uint32_t sms;           // held while phase is kernel
  std::uint64_t end_ns;        // of a copy, or a kernel with its slice; else the remaining time; kNever: it spins
  std::uint64_t free_ns;       // when the command before head completed
  std::uint32_t closing;       // destroyed by its owner; freed when its queue is empty
  std::uint32_t engine;        // copy engine while phase is copy
  std::uint64_t phase_ns;      // when the present phase began
  std::uint64_t dropped_from;  // commands from this number on were dropped with their context's error; 0: none
};

// Part of a device's SMs that only one green context's streams use. Kernels of other streams may run on any SM.
struct Partition {
  std::uint32_t id;  // unique within its process; 0: all SMs
  std::uint32_t sms;
};

struct Context {
  std::uint32_t used;
  std::uint32_t process;
  std::uint32_t device;
  std::uint32_t account;
  std::uint32_t resident;  // kernels running (or paused by the slice)
  std::uint32_t sms_used;
  std::uint32_t spinning;      // resident kernels that wait for a flag
  std::uint32_t legacy;        // its legacy default stream
  std::uint64_t last_active;   // turn number of its last slice, for round robin
  std::uint32_t first_stream;  // list through StreamLink::next
  std::uint32_t stream_count;
  std::uint32_t error;    // set by a kernel's fault; every use of the context returns it; 0: none
  std::uint32_t mps_sms;  // SMs for the kernels of an MPS client, from 1; 0: no client
};

// Cached facts about the command at a stream's head, to avoid reading the queue each time. Outside the journal: valid
// while number is head + 1, and dropped when a half step is undone.
struct Ready {
  std::uint64_t number;
  std::uint64_t ready_ns;  // earliest start
  std::uint64_t order;
  CommandKind kind;
  std::uint32_t spare;
};

struct StreamLink {
  std::uint32_t next, previous;
};

inline constexpr std::uint32_t kCopyEngines = 3;  // to device, to host, on device

inline constexpr std::uint32_t kKeptXids = 16;

struct Device {
  std::uint64_t accounted_ns;  // accounts and remaining times are exact up to here
  std::uint32_t active;        // context that has the slice, or kNone
  std::uint32_t contexts;      // alive on this device
  std::uint64_t slice_end_ns;
  std::uint32_t loaded;         // context that last had the device, or kNone; with MPS any client
  std::uint32_t switching_to;   // the device's next context while `active` is kNone, or kNone
  std::uint64_t switch_end_ns;  // of that switch
  std::uint64_t turn;
  std::uint32_t copying[kCopyEngines];  // stream, or kNone
  std::uint64_t busy_ns;                // any kernel running
  std::uint64_t bytes;                  // taken by all processes, contexts included
  std::uint64_t xid_count;              // XIDs since the node was made; the last ones by number below
  std::uint32_t xids[kKeptXids];
};

// Of a process, those that are kept: its own and those around it.
inline constexpr std::uint32_t kMaxCgroups = 8;

// As cuda.h's CUprocessState counts.
enum class CheckpointState : std::uint32_t { running, locked, checkpointed };

struct Process {
  std::uint32_t used;
  std::uint32_t generation;  // raised at each birth in this slot
  std::int32_t pid;
  std::uint32_t image;          // distinguishes a process before and after exec
  std::uint64_t pid_namespace;  // inode; 0: unknown
  std::uint64_t start_time;     // field 22 of /proc/PID/stat; 0: unknown
  char comm[16];
  std::atomic<std::uint32_t> checkpoint;  // CheckpointState; its own calls read it without the lock
  std::uint32_t mps_percent;              // of the SMs, for a client of the MPS server; 0: no client
  std::uint64_t cgroups[kMaxCgroups];     // inodes of its cgroup (version 2) and those around it, innermost first
};

struct Account {
  std::uint32_t used;     // 0 free, 1 the process lives, 2 dead but listed
  std::uint32_t process;  // slot, while it lives
  std::uint32_t device;
  std::int32_t pid;
  std::uint64_t pid_namespace;
  std::uint64_t start_time;
  char comm[16];
  std::uint32_t contexts;
  std::uint32_t reserved;
  std::uint64_t birth_ns, death_ns;
  std::uint64_t bytes, peak_bytes;  // allocations, without contexts
  std::uint64_t context_bytes;
  std::uint64_t slack_bytes;  // device memory behind allocations beyond their size: the rest of slabs
  std::uint64_t away_bytes, away_slack_bytes, away_context_bytes;  // moved off the device by a checkpoint
  std::uint64_t teardown_bytes;  // of the dead: taken until profile.teardown_ns after death
  std::uint64_t held_ns;         // union over its contexts of "a kernel runs"
  std::uint64_t sm_ns_sms;       // sum of SMs x ns
  std::uint64_t copy_ns;
  std::uint64_t kernels;   // completed
  std::uint64_t spin_ns;   // part of held_ns with only spinning kernels
  std::uint64_t overlaps;  // kernels that began beside their predecessor's tail
};

// Owner: the process's calls, by device.
struct alignas(64) Counters {
  std::atomic<std::uint64_t> launches, records, event_queries, stream_queries, synchronisations, elapsed_times, copies,
      allocations;
};

struct Bucket {
  std::uint32_t index;    // node time / kBucketNs, low 32 bits; the bucket is valid only if it matches
  std::uint32_t held_ns;  // 0..kBucketNs
};
struct History {
  Bucket buckets[kHistoryBuckets];
};

struct EventCell {
  std::atomic<std::uint64_t> requested;  // owner: records requested
  std::atomic<std::uint64_t> done;       // records executed
  std::atomic<std::uint64_t> done_ns;    // node time of the last one executed
  std::uint32_t used;
  std::uint32_t generation;
  std::uint32_t process;
  std::uint32_t device;
  std::atomic<std::uint64_t> producer_number;  // owner: the last record's position in its stream, for predictions
  std::atomic<std::uint32_t> producer;         // owner: that stream
  std::uint32_t closing;                       // destroyed while a record is pending
};

// A word that kernels and streams wait for: node-wide (process kNone, key < 2^32) or at a device address of a process.
// Kernels read its lower 32 bits.
struct Flag {
  std::uint32_t used;
  std::uint32_t process;
  std::uint64_t key;
  std::uint64_t value;
  std::uint64_t set_ns;

  // True if a kernel's spin ends.
  [[nodiscard]] bool set() const { return static_cast<std::uint32_t>(value) != 0; }
};

inline constexpr std::uint32_t kShortTimeSlice = 1, kLongTimeSlice = 3;

// What NVML's setters left on one device. Written under the node's lock without the journal: each word is sound by
// itself.
struct NvmlDevice {
  std::uint32_t power_limit_mw;          // 0: the profile's default
  std::uint32_t sm_min_mhz, sm_max_mhz;  // locked clocks; 0: not locked
  std::uint32_t memory_min_mhz, memory_max_mhz;
  std::uint32_t application_sm_mhz, application_memory_mhz;  // 0: default
  std::uint32_t persistence_off, compute_mode, accounting_on;
  std::uint32_t ecc_off, ecc_off_now;  // as set; as it is since the last reset of the node
  std::uint32_t time_slice;            // 0 default, kShortTimeSlice, 2 medium, kLongTimeSlice
  std::uint64_t accounting_since_ns;
  // Energy drawn under earlier power limits, and node time and GPU busy time when the present limit was set.
  std::uint64_t energy_mj, energy_now_ns, energy_busy_ns;
  // Bytes that copies between devices moved over its NVLinks. The driver adds at the end of each copy; they belong to
  // no account.
  std::atomic<std::uint64_t> nvlink_sent_bytes, nvlink_received_bytes;
};

// One setter call, refused ones included. The ring's count is raised after the entry is complete.
inline constexpr std::uint32_t kMaxNvmlSettings = 256;
struct NvmlSetting {
  std::uint64_t at_ns;
  std::int32_t pid;
  std::uint32_t uid;
  std::uint32_t device;
  std::uint32_t answer;  // nvmlReturn_t
  std::uint64_t value, second_value;
  char function[48];
};

// Limit of a device's memory for the processes of a cgroup (nvmlDeviceSetMemoryLimits_v1). Written as NvmlDevice is.
inline constexpr std::uint32_t kMaxMemoryFences = 64;
struct MemoryFence {
  std::uint64_t cgroup;  // inode of its directory; 0: the place is free
  std::uint64_t soft_bytes, hard_bytes;
};

// Physical memory that more than one process may hold. Its bytes stay taken while any process holds a descriptor or a
// mapping of its file (Node::settle_shared), even after its creator has ended. A word in it is a flag of all processes,
// under this key.
inline constexpr std::uint64_t shared_flag_key(std::uint32_t shared, std::uint64_t offset) {
  return 1ull << 63 | std::uint64_t{shared} << 44 | offset;
}
inline constexpr std::uint64_t kSharedFlagMask = ~0ull << 44;
struct SharedMemory {
  std::uint32_t used;
  std::uint32_t generation;  // identifies the memory with its slot; raised at each creation
  std::uint32_t device;
  std::uint32_t account;  // the creator, until it lets go; kNone: in no account, but still on the device
  std::uint64_t bytes;
  std::uint64_t inode;  // of its file
};

struct State {
  std::uint64_t now_ns;  // everything up to here was executed
  std::uint32_t device_count;
  std::uint32_t hint_event;                  // where to look for a free slot
  std::uint32_t event_limit, context_limit;  // no used slot at or above
  std::uint64_t tearing_down;                // accounts with teardown_bytes
  std::uint64_t changes;  // raised by changes that waiters cannot predict: a flag, a host function, a death
  Profile profile;
  Device devices[kMaxDevices];
  Process processes[kMaxProcesses];
  Account accounts[kMaxAccounts];
  Context contexts[kMaxContexts];
  StreamLink links[kMaxStreams];
  Partition partitions[kMaxStreams];
  Ready ready[kMaxStreams];
  Flag flags[kMaxFlags];
  SharedMemory shared[kMaxShared];
  std::uint32_t shared_limit;  // no used place at or above
  std::uint32_t shared_spare;
  Stream streams[kMaxStreams];
  Counters counters[kMaxAccounts];
  EventCell events[kMaxEvents];
  History device_history[kMaxDevices];
  History history[kMaxAccounts];
  Ring rings[kMaxStreams];
  NvmlDevice nvml[kMaxDevices];
  std::uint64_t nvml_setting_count;
  NvmlSetting nvml_settings[kMaxNvmlSettings];
  MemoryFence memory_fences[kMaxDevices][kMaxMemoryFences];
};

}  // namespace headgate::sim
