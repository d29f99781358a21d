#include "cli/top/watcher.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>

namespace headgate::cli {
namespace {

using std::chrono::milliseconds;

// Counts snapshots and returns one event for each; fails, restarts or blocks on request.
struct Script {
  std::atomic<int> looks = 0;
  std::atomic<bool> fails = false;
  std::atomic<std::uint64_t> started = 1;
  std::atomic<std::uint64_t> last_asked_after = 0;
  std::atomic<int> most_looks = 1'000'000;  // later ones block
  std::atomic<bool> dates = false;          // each event is later than the one before
};

class ScriptedSource final : public SnapshotSource {
 public:
  explicit ScriptedSource(Script& script) : script_(script) {}
  [[nodiscard]] bool is_daemon() const override { return true; }
  Result<snapshot::Snapshot> look() override {
    ++script_.looks;
    while (script_.looks > script_.most_looks) std::this_thread::yield();
    if (script_.fails) return fail(ErrorCode::unreachable, "connection refused");
    snapshot::Snapshot snapshot;
    snapshot.node.started_unix_ns = script_.started;
    snapshot.taken_ns = static_cast<std::uint64_t>(script_.looks);
    return snapshot;
  }
  Result<std::vector<snapshot::Event>> events_after(std::uint64_t sequence) override {
    script_.last_asked_after = sequence;
    if (script_.dates) ++now_;
    return std::vector<snapshot::Event>{{.sequence = sequence + 1, .unix_ns = now_, .kind = "x", .severity = "info"}};
  }

 private:
  Script& script_;
  std::uint64_t now_ = 0;
};

std::optional<Look> next(Watcher& watcher) {
  pollfd on{watcher.fd(), POLLIN, 0};
  while (::poll(&on, 1, 60'000) > 0)
    if (auto look = watcher.take()) return look;
  return std::nullopt;
}

TEST(Watcher, LooksTwiceAtStartForRates) {
  Script script;
  Watcher watcher(std::make_unique<ScriptedSource>(script), milliseconds(60'000));
  ASSERT_TRUE(next(watcher));
  ASSERT_TRUE(next(watcher)) << "the second does not wait for the interval";
}

TEST(Watcher, TheFirstSnapshotArrivesBeforeTheSecond) {
  Script script;
  script.most_looks = 1;
  Watcher watcher(std::make_unique<ScriptedSource>(script), milliseconds(10));
  const auto first = next(watcher);
  script.most_looks = 1'000'000;
  ASSERT_TRUE(first) << "the second was waited for";
  EXPECT_EQ(first->snapshot->taken_ns, 1u);
}

TEST(Watcher, EventsBetweenUnreadSnapshotsAreKept) {
  Script script;
  Watcher watcher(std::make_unique<ScriptedSource>(script), milliseconds(10));
  std::vector<std::uint64_t> seen;
  while (seen.size() < 20) {
    while (script.looks < static_cast<int>(seen.size()) + 3) std::this_thread::yield();
    const auto look = next(watcher);
    ASSERT_TRUE(look);
    for (const auto& event : look->events) seen.push_back(event.sequence);
  }
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i + 1);
}

TEST(Watcher, AFailedLookIsDeliveredAndTheNextTried) {
  Script script;
  script.fails = true;
  Watcher watcher(std::make_unique<ScriptedSource>(script), milliseconds(10));
  auto look = next(watcher);
  ASSERT_TRUE(look);
  EXPECT_EQ(look->snapshot.error().message, "connection refused");
  script.fails = false;
  do look = next(watcher);
  while (look && !look->snapshot);
  ASSERT_TRUE(look);
}

TEST(Watcher, RestartedEventNumbersAreReadFromTheFirst) {
  Script script;
  script.dates = true;
  Watcher watcher(std::make_unique<ScriptedSource>(script), milliseconds(10));
  while (script.last_asked_after < 3) ASSERT_TRUE(next(watcher));
  script.started = 2;
  std::optional<Look> look;
  do look = next(watcher);
  while (look && look->snapshot && look->snapshot->node.started_unix_ns == 1);
  ASSERT_TRUE(look);
  // Events of snapshots that were not taken may precede it.
  EXPECT_TRUE(std::ranges::any_of(look->events, [](const auto& event) { return event.sequence == 1; }));
}

TEST(Watcher, EventsOfAnEarlierDaemonAreNotRepeated) {
  Script script;
  Watcher watcher(std::make_unique<ScriptedSource>(script), milliseconds(10));
  std::uint64_t last = 0;
  for (int after = 0; after < 3;) {
    const auto look = next(watcher);
    ASSERT_TRUE(look && look->snapshot);
    for (const auto& event : look->events) EXPECT_EQ(event.sequence, ++last);
    if (last >= 3) script.started = 2;
    after += look->snapshot->node.started_unix_ns == 2 ? 1 : 0;
  }
}

TEST(Watcher, AShorterIntervalAppliesAtOnce) {
  Script script;
  Watcher watcher(std::make_unique<ScriptedSource>(script), milliseconds(60'000));
  while (script.looks < 2) ASSERT_TRUE(next(watcher));
  watcher.set_interval(milliseconds(10));
  while (script.looks < 5) ASSERT_TRUE(next(watcher));
}

TEST(Watcher, StopsDuringALongInterval) {
  Script script;
  const auto begin = std::chrono::steady_clock::now();
  {
    Watcher watcher(std::make_unique<ScriptedSource>(script), milliseconds(60'000));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace headgate::cli
