// What the arbiter is told and what it says: plain data. Times are ns of one steady clock, durations ns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headgate::schedule {

inline constexpr std::uint32_t kMaxGpus = 16;

// Per GPU. fair: weights and guarantees. priority: a higher class goes first, always. off: every gate is open, as under
// MPS, where kernels of several shares run at once and exclusive leases would only cost.
enum class Policy : std::uint32_t { fair, priority, off };

// As in the policy page. latency: never kept waiting by the arbiter, whatever the policy.
enum class Class : std::uint32_t { best_effort = 0, normal = 1, latency = 2 };

// What a share may do on one GPU. Its ceiling is not here: the limiter's own pacer keeps it, with or without an
// arbiter.
struct Terms {
  std::uint32_t gpu = 0;            // 0..kMaxGpus-1
  std::uint32_t weight = 100;       // 1..1000
  std::uint32_t guarantee_ppm = 0;  // of the GPU's time; 0..1'000'000
  Class priority_class = Class::normal;
  friend bool operator==(const Terms&, const Terms&) = default;
};

struct ShareTerms {
  std::vector<Terms> gpus;  // one for each GPU; at least one
  // Shares of one gang count as one, and their gates open together on all GPUs. Empty: the share is alone in its own,
  // and its gates on several GPUs open together only while its ranks are seen to wait for each other.
  std::string gang{};
  // What the policy page says of an earlier arbiter's time on each of `gpus`; missing: 0. See Arbiter::virtual_time_ns.
  std::vector<std::int64_t> virtual_times_ns{};
};

inline constexpr std::int64_t kNoCeiling = 1ll << 60;

// What limiters report of a share on one GPU. Any of it may be a lie: it moves this share's own account and no other's.
struct Use {
  std::int64_t held_ns = 0;  // GPU time held so far, measured
  // Sent and not known to be finished, by the estimates; 0: nothing is; 1 to 1,000: it should have ended by now.
  std::int64_t in_flight_ns = 0;
  std::int64_t oldest_age_ns = 0;         // how long ago the oldest of that was sent; 0: not known
  std::int64_t kernel_ns = 0;             // mean length of its commands; 0: not known
  std::int64_t dry_ns = 0;                // so far: between its last command's end and the next request
  std::uint64_t dry_spells = 0;           // how many such stretches
  std::uint64_t requests = 0;             // launches asked for so far: only that it moves counts
  std::int64_t ceiling_ns = 0;            // until its own ceiling lets it on; 0: now
  std::int64_t credit_ns = kNoCeiling;    // for how long it has let it on and nothing was charged
  std::uint32_t ceiling_ppm = 1'000'000;  // 1..1'000'000, where credit_ns is said
  bool wanting = false;                   // a launch waits at the gate
  std::uint32_t processes = 0;            // that work or wait: a portion passes in each of them; 0: not counted
};

enum class Gate : std::uint32_t {
  open = 0,         // launches pass
  shut = 1,         // they wait, and ring the arbiter's bell
  batch = 2,        // launches worth batch_ns pass, or one that is longer; then none until all of them have ended
  open_notify = 3,  // they pass, and the first one rings
  queued = 4,       // they wait and need not ring: the arbiter knows of them
};

using ShareId = std::uint32_t;
inline constexpr ShareId kNoShare = ~0u;

struct Change {
  ShareId share = kNoShare;
  std::uint32_t gpu = 0;
  Gate gate = Gate::open;
  std::int64_t batch_ns = 0;
  friend bool operator==(const Change&, const Change&) = default;
};

// A stretch in which the gang of `share` kept others off the GPU. How much of it nobody used is charged to that gang;
// what was used is charged to whoever used it.
struct Turn {
  ShareId share = kNoShare;
  std::uint32_t gpu = 0;
  std::int64_t from_ns = 0, to_ns = 0;
  std::int64_t held_at_start_ns = 0;
  bool reserved = false;  // it was had by the promise, not by weight
};

}  // namespace headgate::schedule
