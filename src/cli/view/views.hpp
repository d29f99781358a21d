// The views: format a snapshot of the node as text or JSON. Pure, for tests with golden files.
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

// A snapshot, and how it was taken.
struct NodeSnapshot {
  snapshot::Snapshot now;
  std::string no_gpus;                       // why no driver answers; empty: one did
  bool daemon = false;                       // taken by headgated
  std::vector<snapshot::Event> events = {};  // past events, oldest first, if the view needs them; few without a daemon
};

// Events for refusals by an external scheduler or its silence; `why` shows them for kRecentNs.
struct Denial {
  const char* kind;
  const char* words;
};
inline constexpr Denial kDenials[] = {{"admit.denied", "processes"}, {"memory.denied", "allocations that waited"}};
// The first: a process began to wait for admission. After any of the others, or a denial, it no longer waits.
inline constexpr const char* kAdmissionKinds[] = {"admit.asked", "admit.allowed", "admit.withdrawn"};
inline constexpr const char* kWaitingAllocation = "memory.waiting";  // repeated every ten seconds while one waits
inline constexpr std::uint64_t kRecentNs = 86'400'000'000'000;  // at most a day, because clock_text() shows no date

[[nodiscard]] std::string status_text(const NodeSnapshot& snapshot, const Voice& voice);
[[nodiscard]] std::string status_json(const NodeSnapshot& snapshot);

[[nodiscard]] std::string ps_text(const NodeSnapshot& snapshot, const Voice& voice);
[[nodiscard]] std::string ps_json(const NodeSnapshot& snapshot);
// Keeps what concerns this user (name or number; "": all users) and these GPUs (empty: all).
[[nodiscard]] snapshot::Snapshot narrowed(snapshot::Snapshot now, const std::string& user,
                                          const std::vector<std::string>& uuids);

// Free capacity of one GPU. "Uncommitted": promised to no share; meaningful if every share has a limit.
struct Room {
  std::uint32_t index = 0;
  std::string uuid, model;
  std::uint64_t memory_total_bytes = 0, memory_free_bytes = 0, memory_uncommitted_bytes = 0;
  std::uint32_t compute_uncommitted_ppm = 0;
  std::uint32_t shares = 0, unlimited_shares = 0;  // those without a memory limit
  bool fits = false;
};
struct Fit {
  std::uint64_t memory_bytes = 0;  // 0: any
  std::uint32_t memory_ppm = 0;    // of each GPU, instead of bytes
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

// Returns a row for each share on each of its GPUs.
[[nodiscard]] std::string shares_text(const std::vector<snapshot::Share>& shares, const snapshot::Snapshot& now,
                                      const Voice& voice);
// Lists the requests that wait for room; empty if there are none.
[[nodiscard]] std::string waiting_text(const snapshot::Snapshot& now, const Voice& voice);
[[nodiscard]] std::string gpus_text(const NodeSnapshot& snapshot, const Voice& voice);
[[nodiscard]] std::string gpus_json(const NodeSnapshot& snapshot);

// `shares`: those to explain.
[[nodiscard]] std::string why_text(const NodeSnapshot& snapshot, const std::vector<snapshot::Share>& shares,
                                   const Voice& voice);
[[nodiscard]] std::string why_json(const NodeSnapshot& snapshot, const std::vector<snapshot::Share>& shares);
// For a share that no longer exists: its events, oldest first.
[[nodiscard]] std::string why_gone(const NodeSnapshot& snapshot, const std::string& share,
                                   const std::vector<snapshot::Event>& events, const Voice& voice);
// Finds a process by its PID in `word`, unless that is a share's name; null if there is none.
[[nodiscard]] const snapshot::Process* process_numbered(const snapshot::Snapshot& now, const std::string& word);
// For a process outside all shares; text or JSON according to `voice`.
[[nodiscard]] std::string why_not_held(const NodeSnapshot& snapshot, const snapshot::Process& process,
                                       const Voice& voice);

// "once", "3 times".
[[nodiscard]] std::string times(std::uint64_t count);
// The last refusal, its reason and what helps; without one, what is in use.
[[nodiscard]] std::string refusal_text(const NodeSnapshot& snapshot, const snapshot::Share& share,
                                       const snapshot::ShareDevice& device);
// The host memory used instead of the GPU's; empty if the share may use none.
[[nodiscard]] std::string host_text(const snapshot::ShareDevice& device);
// Says why the driver does not enforce the memory limit too, although it can. Empty if it does, or if it cannot.
[[nodiscard]] std::string driver_problem_text(const snapshot::Share& share);
// The driver's own limit of the share's memory; empty if it has none.
[[nodiscard]] std::string driver_limit_text(const snapshot::ShareDevice& device);

}  // namespace headgate::cli
