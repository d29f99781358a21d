// Where the live views get their snapshots: the node's daemon, or, without one, the driver and this user's own shares.
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

// What is left empty does not choose.
struct EventChoice {
  std::uint64_t since_unix_ns = 0;
  std::string share = {};
  std::string kind = {};  // the beginning of it

  [[nodiscard]] bool fits(const snapshot::Event& event) const {
    return event.unix_ns >= since_unix_ns && (share.empty() || event.share == share) && event.kind.starts_with(kind);
  }
  [[nodiscard]] bool chooses() const { return since_unix_ns != 0 || !share.empty() || !kind.empty(); }
};

// For one thread at a time.
class SnapshotSource {
 public:
  virtual ~SnapshotSource() = default;
  [[nodiscard]] virtual bool is_daemon() const = 0;
  // A snapshot of now; rates are since this source's last one. Errors: unreachable.
  [[nodiscard]] virtual Result<snapshot::Snapshot> look() = 0;
  // What happened after `sequence` (0: all that is known), oldest first; without a daemon, what the last look() showed.
  [[nodiscard]] virtual Result<std::vector<snapshot::Event>> events_after(std::uint64_t sequence) = 0;
  // What happened and fits, oldest first; of a daemon, over its restarts too.
  [[nodiscard]] virtual Result<std::vector<snapshot::Event>> events_that(const EventChoice& choice) {
    auto events = TRY(events_after(0));
    std::erase_if(events, [&](const auto& event) { return !choice.fits(event); });
    return events;
  }
  // What the last snapshot lacks, and why ("no NVIDIA driver here"); empty: nothing.
  [[nodiscard]] virtual std::string remark() const { return {}; }
};

// A look that takes longer than two seconds is an error.
[[nodiscard]] std::unique_ptr<SnapshotSource> daemon_source(const http::Endpoint& daemon);

// Calls `each` with the daemon's events after `sequence` and then with each that comes, until it says false or the
// daemon ends the stream. Errors: unreachable.
[[nodiscard]] Result<void> follow_events(const http::Endpoint& daemon, std::uint64_t sequence,
                                         const std::function<bool(const snapshot::Event&)>& each);

// `simulate`: --sim[=PROFILE]; without it, where no driver answers, the default simulated node if one exists.
// Errors: usage (a profile that is none). That no driver answers is none: snapshots then have no GPUs, and remark()
// says why.
// `runtime_dir`: whose shares; empty: this user's.
[[nodiscard]] Result<std::unique_ptr<SnapshotSource>> local_source(const std::optional<std::string>& simulate,
                                                                   const std::string& usual_profile,
                                                                   const std::optional<std::string>& runtime_dir = {});

}  // namespace headgate::cli
