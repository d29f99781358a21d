// Input and output of the arbiter: plain data. Times are ns of one steady clock, durations ns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headgate::schedule {

inline constexpr std::uint32_t kMaxGpus = 16;

// Per GPU. fair: weights and guarantees. priority: a higher class always goes first. off: every gate is open, as under
// MPS, where kernels of several shares run at once and exclusive leases would only cost time.
enum class Policy : std::uint32_t { fair, priority, off };

// As in the policy page. latency: the arbiter never makes it wait, whatever the policy.
enum class Class : std::uint32_t { best_effort = 0, normal = 1, latency = 2 };

// A share's terms on one GPU. Its ceiling is not included: the limiter's pacer enforces it, with or without an arbiter.
struct Terms {
  std::uint32_t gpu = 0;            // 0..kMaxGpus-1
  std::uint32_t weight = 100;       // 1..1000
  std::uint32_t guarantee_ppm = 0;  // of the GPU's time; 0..1'000'000
  Class priority_class = Class::normal;
  friend bool operator==(const Terms&, const Terms&) = default;
};

struct ShareTerms {
  std::vector<Terms> gpus;  // one per GPU; at least one
  // Shares of one gang count as one, and their gates open together on all GPUs. Empty: a gang of this share alone; its
  // gates on several GPUs open together only while its ranks are seen to wait for each other.
  std::string gang{};
  // The virtual times of an earlier arbiter from the policy page, by `gpus`; missing: 0. See Arbiter::virtual_time_ns.
  std::vector<std::int64_t> virtual_times_ns{};
};

inline constexpr std::int64_t kNoCeiling = 1ll << 60;

// What limiters report about a share on one GPU. False reports only affect this share's own account.
struct Use {
  std::int64_t held_ns = 0;        // measured GPU time held so far
  std::int64_t given_back_ns = 0;  // total: charged, and then found to be another share's; not in held_ns
  // Sent and not known to have ended, by estimate; 0: nothing; 1 to 1,000: it should have ended by now.
  std::int64_t in_flight_ns = 0;
  std::int64_t oldest_age_ns = 0;         // age of the oldest of that; 0: unknown
  std::int64_t kernel_ns = 0;             // mean length of its commands; 0: unknown
  std::int64_t dry_ns = 0;                // total: between its last command's end and the next request
  std::uint64_t dry_spells = 0;           // number of such intervals
  std::uint64_t requests = 0;             // launches requested so far: only changes matter
  std::int64_t ceiling_ns = 0;            // until its own ceiling lets it continue; 0: now
  std::int64_t credit_ns = kNoCeiling;    // how long it has been allowed without being charged
  std::uint32_t ceiling_ppm = 1'000'000;  // 1..1'000'000, if credit_ns is reported
  bool wanting = false;                   // a launch waits at the gate
  std::uint32_t processes = 0;            // that work or wait; each of them may send a batch; 0: not counted
};

enum class Gate : std::uint32_t {
  open = 0,         // launches pass
  shut = 1,         // they wait, and ring the arbiter's bell
  batch = 2,        // launches worth batch_ns pass, or one longer one; the next when all of them have ended
  open_notify = 3,  // they pass, and the first one rings
  queued = 4,       // they wait without ringing: the arbiter knows of them
};

// With `queued` and `shut`: the turn ends with the share's last kernels, and the process whose work ends last rings.
inline constexpr std::int64_t kEndingNs = 2'000;

constexpr bool is_closed(Gate gate) { return gate == Gate::shut || gate == Gate::queued; }

using ShareId = std::uint32_t;
inline constexpr ShareId kNoShare = ~0u;

struct Change {
  ShareId share = kNoShare;
  std::uint32_t gpu = 0;
  Gate gate = Gate::open;
  std::int64_t batch_ns = 0;  // of a closed gate: kEndingNs or 0
  std::int64_t opens_ns = 0;  // for `open`: launches pass from then on, if that is later than now
  friend bool operator==(const Change&, const Change&) = default;
};

// A span in which the gang of `share` kept others off the GPU. Its idle time is charged to that gang; used time is
// charged to the shares that used it.
struct Turn {
  ShareId share = kNoShare;
  std::uint32_t gpu = 0;
  std::int64_t from_ns = 0, to_ns = 0;
  std::int64_t held_at_start_ns = 0;
  bool reserved = false;  // paid by the promise, not by weight
};

}  // namespace headgate::schedule
