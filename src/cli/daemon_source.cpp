// Pictures and events of the node's daemon, over its control socket.
#include "cli/daemon.hpp"
#include "cli/snapshot_source.hpp"
#include "http/client.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

constexpr std::chrono::milliseconds kPatience(2000);

class DaemonSource final : public SnapshotSource {
 public:
  explicit DaemonSource(http::Endpoint daemon) : daemon_(std::move(daemon)) {}

  [[nodiscard]] bool is_daemon() const override { return true; }

  Result<snapshot::Snapshot> look() override {
    const std::string body = TRY(ask(daemon_, "GET", "/v1/snapshot", "", kPatience));
    return snapshot::from_json<snapshot::Snapshot>(body);
  }

  Result<std::vector<snapshot::Event>> events_after(std::uint64_t sequence) override {
    const std::string body = TRY(ask(daemon_, "GET", "/v1/events?after=" + std::to_string(sequence), "", kPatience));
    return snapshot::from_json<std::vector<snapshot::Event>>(body);
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
  // The daemon's heartbeat is a second; one that is silent for ten of them is gone.
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
