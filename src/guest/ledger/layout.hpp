// The pages of one share, which limiter, command and daemon use in common.
//
//   policy page   what the share may use.   Written by the share's owner, mapped read-only by tenants.
//   usage page    what the share uses.      Written by the share's tenants, one slot per process.
//
// Rules: fixed-width types only; every offset and size is asserted below. Times are CLOCK_MONOTONIC nanoseconds of the
// host in any time namespace (bare::host_ns()), or durations, never deadlines. The other side may be hostile: copy a
// value before checking it. If magic, version or size of a page differs from ours, it is refused in both directions,
// and the reason named.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest/ledger/coverage.hpp"
#include "guest/ledger/launch_delay.hpp"

namespace headgate::ledger {

inline constexpr std::uint32_t kVersion = 7;
inline constexpr std::uint64_t kPolicyMagic = 0x4847'706f'6c69'6379;  // "HGpolicy"
inline constexpr std::uint64_t kUsageMagic = 0x4847'2075'7361'6765;   // "HG usage"
inline constexpr std::uint32_t kMaxDevices = 16;
// Memory accounts: one for each device's memory, and one for the host memory used past its limit.
inline constexpr std::uint32_t kMaxAccounts = 2 * kMaxDevices;
inline constexpr std::uint32_t host_account(std::uint32_t device) { return kMaxDevices + device; }
inline constexpr std::uint32_t kMaxSlots = 256;
inline constexpr std::uint32_t kNameBytes = 64;  // share name with its NUL
inline constexpr std::uint32_t kUuidBytes = 48;  // "GPU-xxxxxxxx-..." with its NUL
inline constexpr std::uint64_t kNoMemoryLimit = ~0ull;
inline constexpr std::uint32_t kWholeGpu = 1'000'000;  // parts per million of a GPU's time; this ceiling is no limit

struct PageHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t bytes;  // of the whole page
};

// Which mechanism enforces the limits, from weak to strong; every view shows it.
enum class Level : std::uint32_t { observe = 0, hook = 1, hook_container = 2, mps = 3, mig = 4 };

// What a limiter does when it cannot measure: let work run, or keep the gate shut.
enum class FailPolicy : std::uint32_t { open = 0, closed = 1 };

// Commands from the share's owner to its limiters (set_command), in force until the next. pause: no launch passes until
// run, except one per 20 ms that earlier work may be waiting for. drain: the share is being emptied. No process joins,
// no memory is reserved, unused pool memory is given back; work continues until its processes end. One command does not
// cancel the other, so each is a bit.
enum class Command : std::uint32_t { run = 0, pause = 1, drain = 2, pause_and_drain = 3 };
constexpr Command operator|(Command a, Command b) {
  return static_cast<Command>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool says(Command all, Command one) { return (all | one) == all; }

// The state of a share's gate on a GPU, set by the arbiter (gate.hpp). open: launches pass. shut: they wait, and ring.
// queued: they wait without ringing; the arbiter knows that the share wants the GPU and will look again. batch: with
// nothing of the share in flight, launches worth batch_us may pass, or one longer one; the next wait until those end.
// open_notify: they pass, and ring.
enum class Gate : std::uint32_t { open = 0, shut = 1, batch = 2, open_notify = 3, queued = 4 };

// What a launch waits for at the gate. pause: its share is paused. turn: other shares have the GPU. ceiling: the share
// has used its part of the GPU's time. work: what its process sent earlier has not finished.
enum class WaitReason : std::uint32_t { pause = 0, turn = 1, ceiling = 2, work = 3 };
inline constexpr std::uint32_t kWaitReasons = 4;

struct alignas(64) DevicePolicy {
  char uuid[kUuidBytes];
  std::atomic<std::uint64_t> memory_limit_bytes;     // kNoMemoryLimit: none
  std::atomic<std::uint32_t> compute_ceiling_ppm;    // 1..kWholeGpu
  std::atomic<std::uint32_t> compute_guarantee_ppm;  // 0..kWholeGpu; the arbiter's
  std::atomic<std::uint32_t> weight;                 // 1..1000; the arbiter's
  std::atomic<std::uint32_t> priority_class;         // 0 best effort, 1 normal, 2 latency; the arbiter's
  // The arbiter's decision and state, kept here so that a restarted daemon continues fairly.
  std::atomic<Gate> gate;
  std::atomic<std::uint32_t> gate_epoch;  // futex: moves with gate, ceiling and command; all that a launch checks
  std::atomic<std::int64_t> virtual_time_ns;
  std::atomic<std::uint32_t> batch_us;          // if the gate is `batch`; see also is_ending()
  std::atomic<std::uint32_t> arbitrated;        // 0: no arbiter decides about this GPU, and the gate stays open
  std::atomic<std::uint64_t> host_limit_bytes;  // host memory past memory_limit_bytes; 0: none, the limit is hard
  // Replaces the ceiling while no other share has work on the GPU (rate_now() in compute_account.hpp). 0: not used,
  // else above compute_ceiling_ppm, up to kWholeGpu.
  std::atomic<std::uint32_t> compute_burst_ppm;
  // The share's part of GPU time while no daemon runs. The daemon updates it when the GPU's shares, or which of them
  // have processes, change. 1..kWholeGpu; 0: not set, so the guarantee applies, or the ceiling without one.
  std::atomic<std::uint32_t> compute_unattended_ppm;
  // Where the span for that part begins in each cycle, by the host's clock. Same unit, below kWholeGpu. kWholeGpu: the
  // share is alone there and needs no span.
  std::atomic<std::uint32_t> compute_unattended_from_ppm;
  // 1: the share was promised more than the card has; its programs see host_limit_bytes as card memory too.
  std::atomic<std::uint32_t> oversubscribed;
  // The length of that cycle, the same for all shares of the GPU (unattended_cycle.hpp); 0: the shortest.
  std::atomic<std::uint32_t> compute_unattended_cycle_ms;
  std::atomic<std::uint32_t> opens_us;  // if the gate is `open`: opens_in_ns() of gate.hpp; 0: at once
};
static_assert(sizeof(DevicePolicy) == 128);

struct alignas(64) PolicyPage {
  PageHeader header;
  char share[kNameBytes];
  std::uint32_t device_count;  // 1..kMaxDevices
  Level level;
  FailPolicy fail_policy;
  std::uint32_t owner_uid;
  std::uint64_t generation;  // random at creation: distinguishes a re-created share from a mapped one
  std::atomic<std::uint32_t> command_epoch;
  std::atomic<Command> command;
  std::atomic<std::uint32_t> log_level;
  std::uint32_t unused;
  std::atomic<std::uint64_t> heartbeat;  // the arbiter's; moves while a launch of the share waits for its turn
  std::atomic<std::uint32_t> reclaims;   // moves when limiters should trim their pools; does not change the command
  // How much less of each GPU the share has had than the rule gives it, since no gate takes a long kernel back: ms. Its
  // ceiling lets it make up for that. The arbiter's.
  std::atomic<std::uint16_t> behind_ms[kMaxDevices];
  std::uint8_t reserved[12];
  std::atomic<std::uint32_t> ask_first;       // 1: a process is seated only after the daemon allows it
  std::atomic<std::uint32_t> oom_wait_ms;     // how long an allocation without room waits; 0: refused at once
  std::atomic<std::uint32_t> oom_denials;     // moves when waiting allocations are denied
  std::atomic<std::uint32_t> freeze_after_s;  // a process idle this long moves its memory to the host; 0: never
  DevicePolicy devices[kMaxDevices];
};

// Returns whether the share's launches are measured, on all its GPUs: one has a ceiling or an arbiter, or idle programs
// are frozen, and only measured work tells whether a GPU still works for one.
inline bool is_metered(const PolicyPage& policy) {
  bool metered = policy.freeze_after_s.load(std::memory_order_relaxed) != 0;
  for (std::uint32_t i = 0; i < policy.device_count && i < kMaxDevices; ++i) {
    const DevicePolicy& device = policy.devices[i];
    metered |= device.arbitrated.load(std::memory_order_relaxed) != 0 ||
               device.compute_ceiling_ppm.load(std::memory_order_relaxed) < kWholeGpu;
  }
  return metered;
}

// One 16-byte word: the last memory operation applied to an account (account.cpp). Zeroes are a valid start: they mean
// operation 0 of slot 0, which never exists.
struct alignas(16) AccountWord {
  std::uint64_t used_bytes;
  std::uint64_t operation;  // slot in the high 16 bits, its sequence in the low 48: 300 days at 100 ns each
};
inline constexpr std::uint32_t kNoSlot = ~0u;
inline constexpr std::uint32_t kSequenceBits = 48;

// Why an allocation is refused: by the share's limit; by the driver, which has no memory left although the share has;
// or by the share's owner, because it is being drained.
enum class Denial : std::uint32_t { limit = 0, device_full = 1, policy = 2 };

struct alignas(64) MemoryAccount {
  AccountWord word;
  std::atomic<std::uint64_t> peak_bytes;
  std::atomic<std::uint64_t> refusals;            // by the limit; other reasons below
  std::atomic<std::uint64_t> last_refusal_bytes;  // what was requested
  std::atomic<std::uint64_t> last_refusal_used;   // what was in use at that time
  std::atomic<std::uint64_t> last_refusal_ns;     // CLOCK_REALTIME
  std::atomic<std::uint32_t> last_refusal_pid;
  std::atomic<Denial> last_denial;  // the reason
  std::atomic<std::uint64_t> refusals_device_full, refusals_policy;
  std::atomic<std::int64_t> wanted_ns;            // host time of the last request described below; 0: none
  std::atomic<std::uint64_t> peak_in_use_bytes;   // like peak_bytes, with contexts and code
  std::atomic<std::uint64_t> last_refusal_limit;  // the limit at that time; kNoMemoryLimit: none; 0: not recorded
  std::uint8_t reserved[4];
  // What a waiting or just refused allocation lacks (oom_wait.hpp). Hints only; never trusted.
  std::atomic<std::uint32_t> wants;  // moves with each such request, and every second while it waits
  std::atomic<std::uint32_t> wanted_pid;
  std::atomic<std::uint32_t> wanted_of_card;  // 1: the share has room but the card does not
  std::atomic<std::uint64_t> wanted_bytes;
};
static_assert(sizeof(MemoryAccount) == 128);

// The driver calls that measure GPU time. The first failure of one ends a context's metering.
inline constexpr const char* kMeterCalls[] = {"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime",
                                              "cuStreamQuery"};
inline constexpr std::uint32_t kMeterCallCount = sizeof kMeterCalls / sizeof kMeterCalls[0];

inline constexpr std::uint32_t kRoundingClasses = 16;

// Compute use of the share on one device (rules: compute_account.hpp).
struct alignas(64) ComputeAccount {
  std::atomic<std::int64_t> paid_until_ns;  // host time when all charged work is paid for at the ceiling
  std::atomic<std::uint64_t> held_ns;       // GPU time held: the union over the share's processes
  std::atomic<std::uint64_t> estimated_ns;  // the part of held_ns that was estimated
  std::atomic<std::uint64_t> copy_ns;       // time with copies of the share in progress, calls included: their union
  std::atomic<std::uint64_t> throttled_ns;  // total waiting time of launching threads
  std::atomic<std::uint64_t> throttled_launches;
  std::atomic<std::uint64_t> passed_in_debt;    // launches let through by the 20 ms rule
  std::atomic<std::uint64_t> last_throttle_ns;  // CLOCK_REALTIME
  std::atomic<std::uint64_t> neighbours_ns;     // charged, then given back: other shares had the GPU (gpu_page.hpp)
  std::atomic<std::uint64_t> slices;            // how far that was examined; a packed Slices of gpu_page.cpp
  std::atomic<std::int64_t> alone_until_ns;     // until then no other share counts as having work
  std::atomic<std::uint64_t> priced_ppm;        // the ceiling that paid_until_ns is priced at; 0: nothing charged yet
  // Reported to the arbiter while the GPU is arbitrated.
  std::atomic<std::uint64_t> requests;    // moves when launches are requested
  std::atomic<std::int64_t> kernel_ns;    // typical length of its commands; 0: unknown
  std::atomic<std::int64_t> dry_ns;       // between the end of all that a process sent and its next request
  std::atomic<std::uint64_t> dry_spells;  // number of such intervals
  // Of commands of 225 us or more: host time when all that the share sent should be done, by estimate, if it had the
  // GPU alone; the process that sent last; until when several processes count as sending.
  std::atomic<std::int64_t> sent_until_ns;
  std::atomic<std::uint64_t> sender;
  std::atomic<std::int64_t> several_until_ns;
  // Memory of a context with this GPU and driver, as the share last measured it; 0: not measured. Any process may write
  // it.
  std::atomic<std::uint64_t> context_bytes;
  // How the driver rounds requests of more than 2^(20+i) bytes, as learned by guest/limiter/memory/rounding.cpp. Any
  // process may write it.
  std::atomic<std::uint8_t> rounding[kRoundingClasses];
  // Over the last settled brackets of all processes: their total length, and how much of it was new.
  std::atomic<std::int64_t> lengths_ns, new_ns;
  Coverage<2048> coverage;  // which microseconds are already charged
  Coverage<2048> copies;    // which are in copy_ns
  LaunchDelays delays;
  alignas(64) std::atomic<std::uint64_t> meter_failures[kMeterCallCount];  // contexts, by the call in kMeterCalls
  std::atomic<std::int64_t> in_flight_ns;  // of the commands of sent_until_ns: estimates of those that have not ended
  alignas(64) std::atomic<std::uint64_t> waited_ns[kWaitReasons];  // throttled_ns, by reason
  // Host times: when a launch last passed by the 20 ms rule; when a command of sent_until_ns last ended, or began while
  // none should have run; until when launches never measured may be measured.
  std::atomic<std::int64_t> last_debt_ns, moved_ns, unknown_until_ns;
  // By how much the card's free memory last changed with a context of the share: twice the same is context_bytes.
  std::atomic<std::uint64_t> context_seen_bytes;
};
static_assert(sizeof(ComputeAccount) == 192 + 2 * 2048 * 8 + 128 + 64 + 64);

// free -> claiming -> live -> dead -> free; or dead -> orphan -> free if memory outlives its process: what it exported,
// or all of it until the driver has freed it.
enum class SlotKind : std::uint32_t { free = 0, claiming = 1, live = 2, dead = 3, orphan = 4 };

inline constexpr std::uint64_t kExplained = 1ull << 63;

// Per account, written only by the slot's owner (others raise `done`); see account.cpp. Two cache lines, so that
// helpers do not slow the owner's stores.
struct alignas(64) SlotDevice {
  std::atomic<std::int64_t> delta_bytes;
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> settled;
  std::atomic<std::uint64_t> held_bytes[2];
  std::atomic<std::uint64_t> exported_bytes;  // part of held that other processes may keep alive
  std::atomic<std::uint64_t> residual_bytes;  // contexts, code, local memory: measured, not reserved
  std::atomic<std::uint64_t> launches;        // metered launches; added when their bracket closes
  std::atomic<std::uint64_t> done;
  std::atomic<std::uint64_t> draining_bytes;  // part of exported that the owner has freed
  // Reported to the arbiter about this process's work on the device (gate.hpp); devices only.
  std::atomic<std::int64_t> work_until_ns;  // host time when all it sent should be done; 0: none in flight
  std::atomic<std::uint32_t> waiting;       // launches waiting for the share's turn
  std::atomic<std::uint32_t> pulse;  // moves while either is true: the arbiter does not wait for a stopped process
  // Host time since when a launch has waited for more than kLongWaitNs; 0: none. For views.
  std::atomic<std::int64_t> long_wait_since_ns;
  // Percent of the device's SMs that CUDA_MPS_ACTIVE_THREAD_PERCENTAGE leaves the process if it is a client of an MPS
  // server; 0: no known restriction.
  std::atomic<std::uint32_t> sm_percent;
  // Threads that move bytes from the account to residual_bytes. Meanwhile both have them.
  std::atomic<std::uint32_t> moves;
  // For the arbiter: host time when the oldest work in flight was sent; 0: none. Work in flight for long may be waiting
  // for another GPU.
  std::atomic<std::int64_t> oldest_ns;
  // The part of residual_bytes explained by contexts and calls, with kExplained set; 0: the limiter does not report it.
  std::atomic<std::uint64_t> explained_bytes;
};

// `life` and the word after it are set by one 16-byte compare-and-swap when a slot is claimed, so even a process killed
// at its first store is identified. Read them with view() in slot.hpp.
struct alignas(64) Slot {
  std::atomic<std::uint64_t> life;    // kind in bits 0..3, generation in 4..31, pid in the high 32
  std::atomic<std::uint64_t> who;     // pid namespace's inode in the high 32 bits, start time (Identity's) in the low
  char command[16];                   // comm, for display
  std::atomic<std::int64_t> died_ns;  // host time when its death was seen; for a slot with draining bytes
  std::uint8_t reserved[16];
  std::atomic<std::int64_t> frozen_since_ns;  // host time; 0: its memory is on the GPU
  SlotDevice devices[kMaxAccounts];           // residual and launches only in devices
};

struct alignas(64) UsagePage {
  PageHeader header;
  std::uint32_t slot_count;               // kMaxSlots
  std::uint32_t device_count;             // as in the policy page
  std::uint64_t generation;               // as in the policy page
  std::atomic<std::uint64_t> closing;     // 0 open, 1 closed for good, else being checked for emptiness
  std::atomic<std::uint32_t> slots_seen;  // no slot at or above this was ever claimed: views skip the rest
  std::atomic<std::uint32_t> residuals;   // moves when a slot's residual changes: sums of residuals are then stale
  std::atomic<std::uint64_t>
      teardowns_given_up;  // bytes of dead processes given back by timeout, not because they were seen freed
  std::atomic<std::uint64_t> context_turn;  // see GpuPage; here under a daemon
  std::uint8_t reserved[44];
  std::atomic<std::uint32_t> releases;        // futex: moves when memory is given back while it is odd (oom_wait.hpp)
  std::atomic<std::uint64_t> freezes, thaws;  // how often a process moved its memory to the host, and back
  MemoryAccount memory[kMaxAccounts];
  ComputeAccount compute[kMaxDevices];
  Slot slots[kMaxSlots];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(SlotDevice) == 128);
static_assert(offsetof(SlotDevice, done) == 64);
static_assert(offsetof(Slot, who) == 8);
static_assert(offsetof(PolicyPage, devices) % 64 == 0);
static_assert(offsetof(UsagePage, memory) % 64 == 0);

}  // namespace headgate::ledger
