// The pages of one share: what limiter, command and daemon have in common.
//
//   policy page   what the share may use.   Written by the share's owner, mapped read-only by tenants.
//   usage page    what the share uses.      Written by the share's tenants, one slot a process.
//
// Rules: fixed-width types only; every offset and size is asserted below; times are CLOCK_MONOTONIC nanoseconds of
// the host, whatever time namespace they are written or read in (bare::host_ns()), or durations, never
// deadlines; the other side may be hostile, so a value is copied out before it is believed.
// A page whose magic, version or size differs from ours is refused by name, in both directions.
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
// Memory accounts: one for each device's own memory, and one for the host memory that stands in for it past the limit.
inline constexpr std::uint32_t kMaxAccounts = 2 * kMaxDevices;
inline constexpr std::uint32_t host_account(std::uint32_t device) { return kMaxDevices + device; }
inline constexpr std::uint32_t kMaxSlots = 256;
inline constexpr std::uint32_t kNameBytes = 64;  // share name with its NUL
inline constexpr std::uint32_t kUuidBytes = 48;  // "GPU-xxxxxxxx-..." with its NUL
inline constexpr std::uint64_t kNoMemoryLimit = ~0ull;
inline constexpr std::uint32_t kWholeGpu =
    1'000'000;  // parts per million of a GPU's time; a ceiling of this is no limit

inline constexpr std::int64_t kUnattendedCycleNs = 100'000'000;

struct PageHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t bytes;  // of the whole page
};

// Who promises what, from weak to strong; every view says it.
enum class Level : std::uint32_t { observe = 0, hook = 1, hook_container = 2, mps = 3, mig = 4 };

// What a limiter does when it cannot measure: let work run, or keep the gate shut.
enum class FailPolicy : std::uint32_t { open = 0, closed = 1 };

// Words from the share's owner to its limiters (set_command), in force until the next. pause: no launch passes until
// run is said again, but for what work from before may be waiting for, one each 20 ms. drain: the share is being
// emptied. No process joins it, no memory is reserved, what pools hold unused is given back; work goes on until its
// processes end. One does not take the other back, so each is a bit.
enum class Command : std::uint32_t { run = 0, pause = 1, drain = 2, pause_and_drain = 3 };
constexpr Command operator|(Command a, Command b) {
  return static_cast<Command>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool says(Command all, Command one) { return (all | one) == all; }

// How launches of the share find its gate on a GPU; the arbiter's word (gate.hpp). open: they pass. shut: they wait,
// and ring. queued: they wait, and need not ring: the arbiter knows that the share wants the GPU, and looks again by
// itself. portion: with nothing of the share in flight, launches worth batch_us may pass, or one if it is longer; then
// they wait until all of that has ended. tell: they pass, and ring.
enum class Gate : std::uint32_t { open = 0, shut = 1, batch = 2, open_notify = 3, queued = 4 };

// What a launch waits for at the gate. pause: its share is paused. turn: other shares have the GPU. ceiling: the share
// has used its part of the GPU's time. work: what its process has sent before is not done.
enum class WaitReason : std::uint32_t { pause = 0, turn = 1, ceiling = 2, work = 3 };
inline constexpr std::uint32_t kWaitReasons = 4;

struct alignas(64) DevicePolicy {
  char uuid[kUuidBytes];
  std::atomic<std::uint64_t> memory_limit_bytes;     // kNoMemoryLimit: none
  std::atomic<std::uint32_t> compute_ceiling_ppm;    // 1..kWholeGpu
  std::atomic<std::uint32_t> compute_guarantee_ppm;  // 0..kWholeGpu; the arbiter's
  std::atomic<std::uint32_t> weight;                 // 1..1000; the arbiter's
  std::atomic<std::uint32_t> priority_class;         // 0 best effort, 1 normal, 2 latency; the arbiter's
  // The arbiter's decision, and its books, kept here so that a new daemon starts fair.
  std::atomic<Gate> gate;
  std::atomic<std::uint32_t> gate_epoch;  // a futex: moves with gate, ceiling and command; the launch path's only look
  std::atomic<std::int64_t> virtual_time_ns;
  std::atomic<std::uint32_t> batch_us;          // where the gate passes a portion
  std::atomic<std::uint32_t> arbitrated;        // 0: nobody decides who has this GPU, and the gate stands open
  std::atomic<std::uint64_t> host_limit_bytes;  // host memory past memory_limit_bytes; 0: none, the limit is hard
  // What stands in for the ceiling while no other share has work on the GPU (rate_now() in compute_account.hpp); 0:
  // nothing does, else above compute_ceiling_ppm..kWholeGpu.
  std::atomic<std::uint32_t> compute_burst_ppm;
  // What the share may take of the GPU's time while no daemon runs. The daemon writes it, at each change of the GPU's
  // shares and of which of them have processes. 1..kWholeGpu; 0: not said, so the guarantee holds, or the ceiling
  // without one.
  std::atomic<std::uint32_t> compute_unattended_ppm;
  // Where in each cycle of kUnattendedCycleNs, of the host's clock, the stretch for that part begins. Written like it:
  // before kWholeGpu; kWholeGpu: the share is alone there and needs none.
  std::atomic<std::uint32_t> compute_unattended_from_ppm;
  // 1: the share was promised more than the card has, and its programs see host_limit_bytes as the card's memory too.
  std::atomic<std::uint32_t> oversubscribed;
};
static_assert(sizeof(DevicePolicy) == 128);

struct alignas(64) PolicyPage {
  PageHeader header;
  char share[kNameBytes];
  std::uint32_t device_count;  // 1..kMaxDevices
  Level level;
  FailPolicy fail_policy;
  std::uint32_t owner_uid;
  std::uint64_t generation;  // random at creation: tells a re-made share from the one that was mapped
  std::atomic<std::uint32_t> command_epoch;
  std::atomic<Command> command;
  std::atomic<std::uint32_t> log_level;
  std::uint32_t unused;
  std::atomic<std::uint64_t> heartbeat;  // of the arbiter; moves while a launch of the share waits for its turn
  std::atomic<std::uint32_t>
      reclaims;  // moves when limiters are to trim their pools: a request, which leaves the command as it is
  std::uint8_t reserved[44];
  std::atomic<std::uint32_t> ask_first;       // 1: a process takes its seat only when the daemon has said that it may
  std::atomic<std::uint32_t> oom_wait_ms;     // how long an allocation without room waits; 0: it is refused at once
  std::atomic<std::uint32_t> oom_denials;     // moves when those who wait are told no
  std::atomic<std::uint32_t> freeze_after_s;  // a process that is idle so long moves its memory to the host; 0: never
  DevicePolicy devices[kMaxDevices];
};

// One 16-byte word: the last memory operation applied to an account (see account.hpp). Zeroes are a valid start: they
// name operation 0 of slot 0, which never was.
struct alignas(16) AccountWord {
  std::uint64_t used_bytes;
  std::uint64_t operation;  // slot in the high 16 bits, that slot's sequence in the low 48: 300 days at 100 ns each
};
inline constexpr std::uint32_t kNoSlot = ~0u;
inline constexpr std::uint32_t kSequenceBits = 48;

// Whose word an allocation is refused by: the share's limit; the driver, which has no memory left though the share has;
// or the share's owner, who drains it.
enum class Denial : std::uint32_t { limit = 0, device_full = 1, policy = 2 };

struct alignas(64) MemoryAccount {
  AccountWord word;
  std::atomic<std::uint64_t> peak_bytes;
  std::atomic<std::uint64_t> refusals;            // by the limit; the others below
  std::atomic<std::uint64_t> last_refusal_bytes;  // what was asked
  std::atomic<std::uint64_t> last_refusal_used;   // what was in use then
  std::atomic<std::uint64_t> last_refusal_ns;     // CLOCK_REALTIME
  std::atomic<std::uint32_t> last_refusal_pid;
  std::atomic<Denial> last_denial;  // by whose word that was
  std::atomic<std::uint64_t> refusals_device_full, refusals_policy;
  std::atomic<std::int64_t> wanted_ns;            // host time of the last of what follows; 0: there was none
  std::atomic<std::uint64_t> peak_in_use_bytes;   // as peak_bytes, with contexts and code
  std::atomic<std::uint64_t> last_refusal_limit;  // the limit then; kNoMemoryLimit: none; 0: not told
  std::uint8_t reserved[4];
  // What an allocation lacks that waits, or was just refused by the driver (oom_wait.hpp); hints, never taken for true.
  std::atomic<std::uint32_t> wants;  // moves with each such request, and each second while it waits
  std::atomic<std::uint32_t> wanted_pid;
  std::atomic<std::uint32_t> wanted_of_card;  // 1: the share has room and the card has none
  std::atomic<std::uint64_t> wanted_bytes;
};
static_assert(sizeof(MemoryAccount) == 128);

// The driver's calls that GPU time is measured by. The first failure of one ends a context's metering.
inline constexpr const char* kMeterCalls[] = {"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime",
                                              "cuStreamQuery"};
inline constexpr std::uint32_t kMeterCallCount = sizeof kMeterCalls / sizeof kMeterCalls[0];

inline constexpr std::uint32_t kRoundingClasses = 16;

// Compute use of the share on one device (see compute_account.hpp for its rules).
struct alignas(64) ComputeAccount {
  std::atomic<std::int64_t> paid_until_ns;  // host time at which all work charged so far is paid for at the ceiling
  std::atomic<std::uint64_t> held_ns;       // GPU time held: the union over the share's processes
  std::atomic<std::uint64_t> estimated_ns;  // the part of held_ns that was estimated, not measured
  std::atomic<std::uint64_t> copy_ns;       // in which copies of the share were under way, calls included: their union
  std::atomic<std::uint64_t> throttled_ns;  // summed waiting of launching threads
  std::atomic<std::uint64_t> throttled_launches;
  std::atomic<std::uint64_t> passed_in_debt;    // launches let through by the 20 ms rule
  std::atomic<std::uint64_t> last_throttle_ns;  // CLOCK_REALTIME
  std::atomic<std::uint64_t> neighbours_ns;     // charged, then given back: other shares had the GPU (gpu_page.hpp)
  std::atomic<std::uint64_t> slices;            // how far that was looked at; a packed Slices of gpu_page.cpp
  std::atomic<std::int64_t>
      alone_until_ns;                     // no other share had work lately, seen so recently that it counts till then
  std::atomic<std::uint64_t> priced_ppm;  // the ceiling that paid_until_ns is priced at; 0: nothing was charged yet
  // What the arbiter is told of the share's work, while the GPU is arbitrated.
  std::atomic<std::uint64_t> requests;    // moves when launches are asked for
  std::atomic<std::int64_t> kernel_ns;    // how long its commands are; 0: not known
  std::atomic<std::int64_t> dry_ns;       // between the end of all that a process had sent and its next request
  std::atomic<std::uint64_t> dry_spells;  // how many such stretches
  // Where several processes of the share send commands of 225 us and more: host time at which all that they have sent
  // should be done if the GPU were theirs, by the estimates; which of them sent last; until when they count as several.
  std::atomic<std::int64_t> sent_until_ns;
  std::atomic<std::uint64_t> sender;
  std::atomic<std::int64_t> several_until_ns;
  // What a context of this GPU and driver takes, as the share's last one was measured; 0: none was. Any process may
  // write it.
  std::atomic<std::uint64_t> context_bytes;
  // How the driver rounds requests of more than 2^(20+i) bytes, as guest/limiter/memory/rounding.cpp learns it.
  // Likewise.
  std::atomic<std::uint8_t> rounding[kRoundingClasses];
  // Of the last settled brackets of all its processes: how long they took together, and how much of that was new.
  std::atomic<std::int64_t> lengths_ns, new_ns;
  Coverage<2048> coverage;  // which microseconds of the recent past are already charged
  Coverage<2048> copies;    // and which are in copy_ns
  LaunchDelays delays;
  alignas(64) std::atomic<std::uint64_t> meter_failures[kMeterCallCount];  // contexts, by the call in kMeterCalls
  alignas(64) std::atomic<std::uint64_t> waited_ns[kWaitReasons];          // throttled_ns, by what was waited for
};
static_assert(sizeof(ComputeAccount) == 192 + 2 * 2048 * 8 + 128 + 64 + 64);

// free -> claiming -> live -> dead -> free; or dead -> orphan -> free where memory outlives its process: what it had
// exported, or all of it until the driver has taken it down.
enum class SlotKind : std::uint32_t { free = 0, claiming = 1, live = 2, dead = 3, orphan = 4 };

inline constexpr std::uint64_t kExplained = 1ull << 63;

// Per account, written by the slot's owner only (others raise `done`); see account.hpp. Two cache lines, so that
// helpers do not slow the owner's own stores.
struct alignas(64) SlotDevice {
  std::atomic<std::int64_t> delta_bytes;
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> settled;
  std::atomic<std::uint64_t> held_bytes[2];
  std::atomic<std::uint64_t> exported_bytes;  // part of held that other processes may keep alive
  std::atomic<std::uint64_t> residual_bytes;  // contexts, code, local memory: measured, not reserved
  std::atomic<std::uint64_t> launches;        // that were metered; told when their bracket closes
  std::atomic<std::uint64_t> done;
  std::atomic<std::uint64_t> draining_bytes;  // owner: part of exported that the owner himself has let go of
  // What the arbiter is told of this process's work on the device (gate.hpp); of devices only.
  std::atomic<std::int64_t> work_until_ns;  // when all it has sent should be done, host time; 0: none is in flight
  std::atomic<std::uint32_t> waiting;       // launches that wait for the share's turn
  std::atomic<std::uint32_t> pulse;         // moves while either is so: a process that is stopped is not waited for
  // Since when a launch waits that has waited for kLongWaitNs, host time; 0: none does. For views.
  std::atomic<std::int64_t> long_wait_since_ns;
  // Of the device's SMs, what CUDA_MPS_ACTIVE_THREAD_PERCENTAGE leaves the process if it is a client of an MPS server;
  // 0: nothing is known to keep it from having all.
  std::atomic<std::uint32_t> sm_percent;
  std::uint8_t reserved[4];
  // The arbiter is told when the oldest of what is in flight was sent, host time; 0: none is. What goes on for long may
  // wait for another GPU.
  std::atomic<std::int64_t> oldest_ns;
  // Of residual_bytes, what contexts and calls explain, with kExplained set; 0: a limiter that does not say.
  std::atomic<std::uint64_t> explained_bytes;
};

// `life` and `who` change together, by one 16-byte compare-and-swap, when a slot is claimed: a process killed at its
// very first store is known by name already. Read them with view() in slot.hpp.
struct alignas(64) Slot {
  std::atomic<std::uint64_t> life;    // kind in bits 0..3, generation in 4..31, pid in the high 32
  std::atomic<std::uint64_t> who;     // pid namespace's inode in the high 32 bits, start time (Identity's) in the low
  char command[16];                   // comm, for people
  std::atomic<std::int64_t> died_ns;  // host time, when its death was seen; of a slot whose bytes drain
  std::uint8_t reserved[16];
  std::atomic<std::int64_t> frozen_since_ns;  // host time; 0: its memory is on the GPU
  SlotDevice devices[kMaxAccounts];           // residual and launches: of devices only
};

struct alignas(64) UsagePage {
  PageHeader header;
  std::uint32_t slot_count;               // kMaxSlots
  std::uint32_t device_count;             // as in the policy page
  std::uint64_t generation;               // as in the policy page
  std::atomic<std::uint64_t> closing;     // 0 open, 1 closed for good, else somebody looks whether it is empty
  std::atomic<std::uint32_t> slots_seen;  // no slot at or above this was ever claimed: spares views the empty rest
  std::atomic<std::uint32_t> residuals;   // moves when a slot's residual has changed: sums of them are out of date
  std::atomic<std::uint64_t>
      teardowns_given_up;  // bytes of the dead given back by time-out, not because they were seen gone
  std::uint8_t reserved[52];
  std::atomic<std::uint32_t> releases;  // futex: moves where memory was given back while it was odd (oom_wait.hpp)
  std::atomic<std::uint64_t> freezes, thaws;  // how often a process has moved its memory to the host, and back
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
