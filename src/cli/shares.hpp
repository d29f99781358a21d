// The shares of this user, read out of their pages into plain structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "guest/ledger/layout.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::cli {

struct ShareDevice {
  std::string uuid;
  std::optional<std::uint64_t> memory_limit_bytes;  // null: none
  std::uint32_t compute_ceiling_ppm = ledger::kWholeGpu;
  std::uint32_t compute_burst_ppm = 0;                      // while no other share works; 0: none
  std::uint64_t host_limit_bytes = 0, host_used_bytes = 0;  // host memory past the limit; 0: the limit is hard
  std::uint64_t memory_residual_bytes = 0;                  // part of used: contexts and code, measured
  std::uint64_t memory_used_bytes = 0, memory_peak_bytes = 0 /* allocated */, memory_orphaned_bytes = 0;
  std::uint64_t refusals = 0, last_refusal_bytes = 0, last_refusal_used_bytes = 0,
                last_refusal_ns = 0;  // CLOCK_REALTIME
  std::uint32_t last_refusal_pid = 0;
  std::uint64_t held_ns = 0, estimated_ns = 0, neighbours_ns = 0, copy_ns = 0, throttled_ns = 0, throttled_launches = 0,
                passed_in_debt = 0;
  std::uint64_t last_throttle_ns = 0;  // CLOCK_REALTIME
  // Over the time between two looks; null after one.
  std::optional<std::uint32_t> held_ppm;
  std::optional<std::uint32_t> throttled_ppm;  // of one thread's time; several waiting threads can pass 100 %
};

struct ShareProcess {
  std::uint32_t pid = 0;
  std::string command;
  std::vector<std::uint64_t> held_bytes;  // by device of the share
};

struct Share {
  std::string name;
  std::uint64_t generation = 0;
  ledger::Level level = ledger::Level::hook;
  ledger::FailPolicy fail_policy = ledger::FailPolicy::open;
  std::uint32_t owner_uid = 0;
  bool paused = false;
  bool draining = false;  // being emptied
  bool attended = false;  // some process, if only a waiting `headgate run`, sits in it
  std::vector<ShareDevice> devices;
  std::vector<ShareProcess> processes;  // without the `headgate run` that waits for them
};

struct UnreadableShare {
  std::string name;
  Error error;
};

struct Shares {
  std::vector<Share> list;  // by name
  std::vector<UnreadableShare> unreadable;
  std::uint64_t taken_ns = 0;  // CLOCK_MONOTONIC
};

// What a waiting `headgate run` calls itself in its slot.
inline constexpr const char* kWaiterName = "headgate run";

[[nodiscard]] std::string level_text(ledger::Level level);
// Names the share, and for pages that nobody can use any more, the directory to remove.
[[nodiscard]] Error share_error(const ledger::PageFault& fault, const std::string& base, const std::string& name);

// Reaps the dead first. No shares where the directory does not exist.
[[nodiscard]] Shares read_shares(const std::string& base);
// The later look, with rates since the earlier one for the shares that are in both.
[[nodiscard]] Shares with_rates(const Shares& earlier, Shares later);

}  // namespace headgate::cli
