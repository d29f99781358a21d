// The exact state and history of a simulated node, to the nanosecond and the byte: for tests, benchmarks and `headgate
// sim`. Limiter and daemon never read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace headgate::sim {

inline constexpr std::uint64_t kTruthBucketNs = 10'000'000;

// GPU time held, in fixed buckets of 10 ms of node time: held_ns[i] belongs to bucket first_bucket + i, node time
// [(first_bucket + i) * 10 ms, + 10 ms). Exact, however often the node was advanced. At least the last 60 s.
struct HeldHistory {
  std::uint64_t first_bucket = 0;
  std::vector<std::uint32_t> held_ns;

  // Returns the time held in [from_bucket, to_bucket); buckets that are not kept count as 0.
  [[nodiscard]] std::uint64_t between(std::uint64_t from_bucket, std::uint64_t to_bucket) const;
};

struct ProcessTruth {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;  // from /proc/PID/stat; 0: unknown
  std::string comm;
  bool alive = false;
  std::uint64_t birth_ns = 0, death_ns = 0;  // node time of its first context here; of its end, 0 while alive
  std::uint32_t contexts = 0;
  std::uint64_t bytes = 0, peak_bytes = 0;  // held by cuMemAlloc and related calls
  std::uint64_t slack_bytes = 0;            // the rest of the slabs with these bytes
  std::uint64_t context_bytes = 0;          // taken by its contexts; NVML shows the sum of all three
  std::uint64_t held_ns = 0;                // time with at least one kernel running
  double sm_ns = 0;                         // the same, weighted by the fraction of SMs in use
  std::uint64_t copy_ns = 0;
  std::uint64_t kernels = 0;   // completed
  std::uint64_t spin_ns = 0;   // part of held_ns with only spinning kernels
  std::uint64_t overlaps = 0;  // kernels that began beside their predecessor's tail (programmatic dependent launch)
  // Calls that reached the driver
  std::uint64_t launches = 0, records = 0, event_queries = 0, stream_queries = 0, synchronisations = 0,
                elapsed_times = 0;
  std::uint64_t copies = 0, allocations = 0;
  HeldHistory history;
};

struct DeviceTruth {
  std::uint32_t index = 0;
  std::string model, uuid;
  std::uint32_t sm_count = 0;
  std::uint64_t memory_bytes = 0, reserved_bytes = 0, used_bytes = 0;  // used: allocations and contexts
  std::uint64_t busy_ns = 0;
  HeldHistory history;
  std::vector<ProcessTruth> processes;  // by birth; dead ones stay until reset
};

// One call of an NVML setter, refused ones included.
struct SettingTruth {
  std::uint64_t at_ns = 0;
  std::int32_t pid = 0;
  std::uint32_t uid = 0, device = 0;
  std::string function;
  std::uint64_t value = 0, second_value = 0;
  std::uint32_t answer = 0;  // nvmlReturn_t
};

struct Truth {
  std::string profile;
  std::uint64_t now_ns = 0;  // node time of this reading: bare::host_ns()
  std::vector<DeviceTruth> devices;
  std::vector<SettingTruth> settings;  // the last 256, oldest first
};

// Advances the node to now and reads it. Errors: unreachable (no node there), failed (not a node, another version).
[[nodiscard]] Result<Truth> read_truth(const std::string& directory);

// Removes dead processes, all totals and histories; living ones keep bytes and contexts. Node-wide flags become 0.
[[nodiscard]] Result<void> reset_truth(const std::string& directory);

}  // namespace headgate::sim
