// The views: a snapshot of the node in, text or JSON out. Pure, so that each has its golden text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"
#include "cli/term/records.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// A snapshot, and how it came to be.
struct NodeSnapshot {
  snapshot::Snapshot now;
  std::string no_gpus;                       // why no driver answers; empty: one did
  bool daemon = false;                       // told by headgated
  std::vector<snapshot::Event> events = {};  // of before, oldest first, where the view wants them; without a daemon few
};

// Events by which an outside scheduler, or its silence, said no, and how far back `why` tells of them.
struct Denial {
  const char* kind;
  const char* words;
};
inline constexpr Denial kDenials[] = {{"admit.denied", "processes"}, {"memory.denied", "allocations that waited"}};
// By the first a process began to wait for its leave; by the others, or a denial, it no longer does.
inline constexpr const char* kAdmissionKinds[] = {"admit.asked", "admit.allowed", "admit.withdrawn"};
inline constexpr const char* kWaitingAllocation = "memory.waiting";  // told of each ten seconds while one waits
inline constexpr std::uint64_t kRecentNs = 86'400'000'000'000;       // clock_text() tells no day

[[nodiscard]] std::string status_text(const NodeSnapshot& snapshot, const Voice& voice);
[[nodiscard]] std::string status_json(const NodeSnapshot& snapshot);

[[nodiscard]] std::string ps_text(const NodeSnapshot& snapshot, const Voice& voice);
[[nodiscard]] std::string ps_json(const NodeSnapshot& snapshot);
// What concerns this user (a name or a number; "": everybody) and these GPUs (none named: all).
[[nodiscard]] snapshot::Snapshot narrowed(snapshot::Snapshot now, const std::string& user,
                                          const std::vector<std::string>& uuids);

// What is left on one GPU. "Uncommitted": not promised to any share, where every share has a limit.
struct Room {
  std::uint32_t index = 0;
  std::string uuid, model;
  std::uint64_t memory_total_bytes = 0, memory_free_bytes = 0, memory_uncommitted_bytes = 0;
  std::uint32_t compute_uncommitted_ppm = 0;
  std::uint32_t shares = 0, unlimited_shares = 0;  // with no memory limit
  bool fits = false;
};
struct Fit {
  std::uint64_t memory_bytes = 0;  // 0: any
  std::uint32_t memory_ppm = 0;    // of each card, instead of bytes
  std::uint32_t compute_ppm = 0;   // 0: any
};
// "10GiB,30%", "10GiB" or "30%,30%": memory first. Errors: usage.
[[nodiscard]] Result<Fit> parse_fit(const std::string& text);
[[nodiscard]] std::vector<Room> rooms(const NodeSnapshot& snapshot, const std::optional<Fit>& fit);
[[nodiscard]] std::string free_text(const NodeSnapshot& snapshot, const std::vector<Room>& rooms,
                                    const std::optional<Fit>& fit, const Voice& voice);
[[nodiscard]] std::string free_json(const NodeSnapshot& snapshot, const std::vector<Room>& rooms,
                                    const std::optional<Fit>& fit);

[[nodiscard]] Records free_records(const std::vector<Room>& rooms, const std::optional<Fit>& fit);

// A row for each share on each of its GPUs.
[[nodiscard]] std::string shares_text(const std::vector<snapshot::Share>& shares, const snapshot::Snapshot& now,
                                      const Voice& voice);
// Who stands in line for room; empty where nobody does.
[[nodiscard]] std::string waiting_text(const snapshot::Snapshot& now, const Voice& voice);
[[nodiscard]] std::string gpus_text(const NodeSnapshot& snapshot, const Voice& voice);
[[nodiscard]] std::string gpus_json(const NodeSnapshot& snapshot);

// `shares`: those to explain.
[[nodiscard]] std::string why_text(const NodeSnapshot& snapshot, const std::vector<snapshot::Share>& shares,
                                   const Voice& voice);
[[nodiscard]] std::string why_json(const NodeSnapshot& snapshot, const std::vector<snapshot::Share>& shares);
// Of a share that is there no more: what was told of it, oldest first.
[[nodiscard]] std::string why_gone(const NodeSnapshot& snapshot, const std::string& share,
                                   const std::vector<snapshot::Event>& events, const Voice& voice);
// The process that a word names by its number, unless it is the name of a share; null: none.
[[nodiscard]] const snapshot::Process* process_numbered(const snapshot::Snapshot& now, const std::string& word);
// Of a process outside every share; text or JSON, as `voice` says.
[[nodiscard]] std::string why_not_held(const NodeSnapshot& snapshot, const snapshot::Process& process,
                                       const Voice& voice);

}  // namespace headgate::cli
