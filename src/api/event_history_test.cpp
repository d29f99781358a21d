// The event log, its store and the queries on both, across daemon restarts.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>

#include "api/event_feed.hpp"
#include "observe/event_log.hpp"
#include "snapshot/json.hpp"

namespace headgate::api {
namespace {

using Events = std::vector<snapshot::Event>;

// What one run of a daemon holds.
struct DaemonRun {
  DaemonRun(const std::string& path, std::chrono::system_clock::time_point now) {
    auto opened = tenancy::EventStore::open(path, {}, [now] { return now; });
    EXPECT_TRUE(opened) << opened.error().message;
    store = std::move(*opened);
    auto former = store->take_former();
    std::vector<observe::EventLog::Gap> gaps;
    for (const auto& gap : former.gaps) gaps.push_back({gap.after, gap.until});
    log.restore(std::move(former.events), std::move(gaps), former.last);
    log.listen([this](const snapshot::Event& event) { store->add(event); });
  }
  void add(const std::string& text, const std::string& share = {}, std::uint32_t owner = 0) {
    log.add({.kind = "k", .severity = "info", .share = share, .owner_uid = owner, .text = text});
  }
  [[nodiscard]] std::pair<int, Events> get(std::map<std::string, std::string> query, node::Caller caller) {
    http::Request request;
    for (const auto& [name, value] : query) request.query.push_back({name, value});
    std::promise<void> woken;
    const auto slot = std::make_shared<http::Reply::Slot>([&] { woken.set_value(); });
    answer_events(request, caller, log, store.get(), http::Reply(slot));
    woken.get_future().wait();
    const auto response = slot->take();
    const auto events = snapshot::from_json<Events>(response->body);
    return {response->status, events.value_or(Events{})};
  }

  observe::EventLog log;
  std::unique_ptr<tenancy::EventStore> store;
};

class EventHistory : public testing::Test {
 protected:
  EventHistory() { std::filesystem::create_directories(directory_); }
  ~EventHistory() override { std::filesystem::remove_all(directory_); }
  static node::Caller root() {
    node::Caller caller;
    caller.administrator = true;
    return caller;
  }
  const std::string directory_ =
      (std::filesystem::temp_directory_path() / ("headgate-events-" + std::to_string(::getpid()))).string();
  const std::string path_ = directory_ + "/events.db";
  std::chrono::system_clock::time_point now_ = std::chrono::system_clock::now() - std::chrono::hours(10);
};

TEST_F(EventHistory, AReaderContinuesAfterARestartWithoutAFalseLoss) {
  std::uint64_t seen = 0;
  {
    DaemonRun first(path_, now_);
    first.add("one");
    first.add("two");
    seen = first.log.last_sequence();
  }
  for (unsigned restart = 0; restart < 2; ++restart) {
    now_ += std::chrono::hours(1);
    DaemonRun run(path_, now_);
    run.add("after restart " + std::to_string(restart));
    observe::EventCursor away(run.log, seen);
    const auto told = away.next(run.log, 64);
    ASSERT_EQ(told.size(), 1U + restart);
    for (const auto& event : told) EXPECT_EQ(event.kind, "k") << event.text;
    EXPECT_GT(told[0].sequence, seen);
    EXPECT_EQ(run.log.after(0).size(), 3U + restart);
    observe::EventCursor lost(run.log, ~0ull >> 1);
    EXPECT_EQ(lost.next(run.log, 64).size(), 3U + restart) << "a number that no daemon here gave";
  }
}

TEST_F(EventHistory, EventsDroppedFromMemoryAreReadFromTheStore) {
  DaemonRun run(path_, now_);
  for (int i = 0; i < 6000; ++i) run.add(std::to_string(i));
  EXPECT_EQ(run.get({}, root()).second.front().text, std::to_string(6000 - 4096)) << "the newest in memory";
  const auto [status, first] = run.get({{"since_unix_ns", "1"}}, root());
  ASSERT_EQ(first.size(), kMaxEvents);
  EXPECT_EQ(first.front().text, "0");
  const auto second =
      run.get({{"since_unix_ns", "1"}, {"after", std::to_string(first.back().sequence)}}, root()).second;
  ASSERT_EQ(second.size(), 6000 - kMaxEvents);
  EXPECT_EQ(second.back().text, "5999");
  EXPECT_EQ(run.get({{"after", std::to_string(first.front().sequence)}}, root()).second.front().text, "1");
}

TEST_F(EventHistory, NonAdministratorsSeeTheirOwnOldEvents) {
  {
    DaemonRun run(path_, now_);
    run.add("mine", "a", 1001);
    run.add("another's", "b", 1002);
  }
  now_ += std::chrono::hours(1);
  DaemonRun run(path_, now_);
  run.add("mine again", "a", 1001);
  node::Caller caller;
  caller.uid = 1001;
  const auto seen = run.get({{"since_unix_ns", "1"}}, caller).second;
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].text + ", " + seen[1].text, "mine, mine again");
}

// A follower reconnects after the in-memory log has dropped events.
TEST_F(EventHistory, AFollowerGetsFirstWhatOnlyTheStoreHas) {
  std::uint64_t before = 0;
  {
    DaemonRun first(path_, now_);
    for (int i = 0; i < 3000; ++i) first.add("x" + std::to_string(i));
    before = first.log.after(0, 1).front().sequence;
  }
  now_ += std::chrono::hours(1);
  DaemonRun run(path_, now_);
  for (int i = 3000; i < 6000; ++i) run.add("x" + std::to_string(i));
  const auto follow = [&](tenancy::EventQuery query) {
    std::mutex mutex;
    std::condition_variable woken;
    bool more = false;
    EventFeed feed(run.log, run.store.get(), root(), std::move(query), false, [&] {
      const std::scoped_lock lock(mutex);
      more = true;
      woken.notify_all();
    });
    std::vector<http::Event> told;
    for (;;) {
      auto some = feed.next();
      if (some.empty() && feed.waits_for_store()) {
        std::unique_lock lock(mutex);
        woken.wait(lock, [&] { return std::exchange(more, false); });
        continue;
      }
      if (some.empty()) return told;
      told.insert(told.end(), some.begin(), some.end());
    }
  };
  const auto missed_of = [](const std::vector<http::Event>& told) {
    return std::ranges::count(told, std::string(observe::EventCursor::kMissed), &http::Event::name);
  };
  const auto all = follow({.after = before});
  EXPECT_EQ(all.size(), 5999u);
  EXPECT_EQ(missed_of(all), 0);
  EXPECT_NE(all.front().data.find("\"x1\""), std::string::npos) << all.front().data;
  EXPECT_NE(all.back().data.find("\"x5999\""), std::string::npos) << all.back().data;
  run.add("of a share", "a");
  const auto chosen = follow({.since_unix_ns = 1, .share = "a"});
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_NE(chosen.front().data.find("of a share"), std::string::npos);
}

TEST_F(EventHistory, AReconnectContinuesAtTheLastEventId) {
  http::Request request;
  EXPECT_TRUE(following_of(request)->from_now);
  request.query.push_back({"after", "3"});
  EXPECT_EQ(following_of(request)->query.after, 3u);
  request.headers.push_back({"last-event-id", "17"});
  EXPECT_EQ(following_of(request)->query.after, 17u);
  request.query.clear();
  EXPECT_EQ(following_of(request)->query.after, 17u);
  EXPECT_FALSE(following_of(request)->from_now);
  request.headers.back().value = "x";
  EXPECT_EQ(following_of(request).error().message, "Last-Event-ID='x' is no number");
  EXPECT_EQ(following_of(request).error().code, ErrorCode::usage);
}

TEST_F(EventHistory, AnInvalidNumberIsRefused) {
  DaemonRun run(path_, now_);
  EXPECT_EQ(run.get({{"since_unix_ns", "yesterday"}}, root()).first, 400);
  EXPECT_EQ(run.get({{"after", "-1"}}, root()).first, 400);
}

}  // namespace
}  // namespace headgate::api
