// Reads snapshots and events from the node's daemon over its control socket.
#include "cli/share/daemon.hpp"
#include "cli/view/snapshot_source.hpp"
#include "http/client.hpp"
#include "http/codec.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {

namespace {

constexpr std::chrono::milliseconds kPatience(2000);
constexpr std::chrono::milliseconds kReading(10'000);  // the daemon may read from disk
constexpr std::size_t kAnswerPage = 4096;              // events per reply of the daemon

class DaemonSource final : public SnapshotSource {
 public:
  explicit DaemonSource(http::Endpoint daemon) : daemon_(std::move(daemon)) {}

  [[nodiscard]] bool is_daemon() const override { return true; }

  Result<snapshot::Snapshot> look() override {
    return snapshot::from_json<snapshot::Snapshot>(TRY(ask(daemon_, "GET", "/v1/snapshot", "", kPatience)));
  }

  Result<std::vector<snapshot::Event>> events_after(std::uint64_t sequence) override {
    return snapshot::from_json<std::vector<snapshot::Event>>(
        TRY(ask(daemon_, "GET", "/v1/events?after=" + std::to_string(sequence), "", kPatience)));
  }

  // Pages through the daemon's replies.
  Result<std::vector<snapshot::Event>> events_that(const EventChoice& choice) override {
    std::string target = "/v1/events?since_unix_ns=" + std::to_string(choice.since_unix_ns);
    if (!choice.share.empty()) target += "&share=" + http::escape(choice.share);
    if (!choice.kind.empty()) target += "&kind=" + http::escape(choice.kind);
    std::vector<snapshot::Event> all;
    for (std::size_t before = 0;; before = all.size()) {
      const std::string after = all.empty() ? "" : "&after=" + std::to_string(all.back().sequence);
      const std::string body = TRY(ask(daemon_, "GET", target + after, "", kReading));
      for (auto& event : TRY(snapshot::from_json<std::vector<snapshot::Event>>(body)))
        if (choice.fits(event)) all.push_back(std::move(event));
      if (all.size() - before < kAnswerPage) return all;
    }
  }

 private:
  const http::Endpoint daemon_;
};

}  // namespace

std::unique_ptr<SnapshotSource> daemon_source(const http::Endpoint& daemon) {
  return std::make_unique<DaemonSource>(daemon);
}

Result<void> follow_events(const http::Endpoint& daemon, std::uint64_t sequence,
                           const std::function<bool(const snapshot::Event&)>& each) {
  // The daemon sends a heartbeat every second; after ten silent seconds it counts as gone.
  constexpr auto kSilence = std::chrono::seconds(10);
  auto source = TRY(
      http::EventSource::open(daemon, {.target = "/v1/events?follow=1&after=" + std::to_string(sequence)}, kPatience));
  for (;;) {
    const auto told = TRY(source.next(kSilence));
    if (!told) return {};
    if (!each(TRY(snapshot::from_json<snapshot::Event>(told->data)))) return {};
  }
}

}  // namespace headgate::cli
