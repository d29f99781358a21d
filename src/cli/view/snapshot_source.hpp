// Sources of snapshots for the views: the node's daemon, or without one, the driver and this user's shares.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "http/endpoint.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Empty fields match all events.
struct EventChoice {
  std::uint64_t since_unix_ns = 0;
  std::string share = {};
  std::string kind = {};  // prefix of the kind

  [[nodiscard]] bool fits(const snapshot::Event& event) const {
    return event.unix_ns >= since_unix_ns && (share.empty() || event.share == share) && event.kind.starts_with(kind);
  }
  [[nodiscard]] bool chooses() const { return since_unix_ns != 0 || !share.empty() || !kind.empty(); }
};

// Not thread-safe.
class SnapshotSource {
 public:
  virtual ~SnapshotSource() = default;
  [[nodiscard]] virtual bool is_daemon() const = 0;
  // Returns a new snapshot; rates are relative to this source's previous one. Errors: unreachable.
  [[nodiscard]] virtual Result<snapshot::Snapshot> look() = 0;
  // Returns events after `sequence` (0: all known), oldest first; without a daemon, those that the last look() found.
  [[nodiscard]] virtual Result<std::vector<snapshot::Event>> events_after(std::uint64_t sequence) = 0;
  // Returns matching events, oldest first; from a daemon, also those before its restarts.
  [[nodiscard]] virtual Result<std::vector<snapshot::Event>> events_that(const EventChoice& choice) {
    auto events = TRY(events_after(0));
    std::erase_if(events, [&](const auto& event) { return !choice.fits(event); });
    return events;
  }
  // Returns what the last snapshot lacks and why ("no NVIDIA driver here"); empty if it is complete.
  [[nodiscard]] virtual std::string remark() const { return {}; }
};

// A snapshot that takes longer than two seconds is an error.
[[nodiscard]] std::unique_ptr<SnapshotSource> daemon_source(const http::Endpoint& daemon);

// Calls `each` with the daemon's events after `sequence`, past and future, until it returns false or the daemon ends
// the stream. Errors: unreachable.
[[nodiscard]] Result<void> follow_events(const http::Endpoint& daemon, std::uint64_t sequence,
                                         const std::function<bool(const snapshot::Event&)>& each);

// `simulate`: --sim[=PROFILE]; if absent and no driver answers, the default simulated node if one exists.
// `runtime_dir`: where the shares are; empty: this user's. Errors: usage (unknown profile). Without a driver there is
// no error: snapshots have no GPUs, and remark() says why.
[[nodiscard]] Result<std::unique_ptr<SnapshotSource>> local_source(const std::optional<std::string>& simulate,
                                                                   const std::string& usual_profile,
                                                                   const std::optional<std::string>& runtime_dir = {});

// Returns memory refusals, shares and processes that came or went, processes outside all shares, XIDs. Times are the
// refusal's if the ledger has it, else that of `now`; sequence numbers follow `last_sequence`.
[[nodiscard]] std::vector<snapshot::Event> changes(const snapshot::Snapshot& before, const snapshot::Snapshot& now,
                                                   std::uint64_t last_sequence);

// Returns events that a single snapshot still shows: the last refusal and the last wait of each share, oldest first.
[[nodiscard]] std::vector<snapshot::Event> remembered(const snapshot::Snapshot& snapshot);

}  // namespace headgate::cli
