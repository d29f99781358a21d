#include "tenancy/event_store.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>

#include "tenancy/test_shares.hpp"

namespace headgate::tenancy {
namespace {

using Events = std::vector<snapshot::Event>;
using std::chrono::hours;
using Time = std::chrono::system_clock::time_point;

std::uint64_t ns(Time time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

class EventStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<EventStore> open(EventBounds bounds = {}) { return open(bounds, standing_clock()); }
  std::unique_ptr<EventStore> open(EventBounds bounds, EventStore::Clock clock) {
    auto store = EventStore::open(path_, bounds, std::move(clock));
    if (!store) ADD_FAILURE() << store.error().message;
    return std::move(store).value();
  }
  [[nodiscard]] EventStore::Clock standing_clock() const {
    return [now = now_] { return now; };
  }
  std::string refusal() {
    const auto store = EventStore::open(path_, {}, standing_clock());
    return store ? "opened" : store.error().message + "; " + store.error().hint;
  }
  snapshot::Event event(std::uint64_t number, const std::string& share = "", const std::string& kind = "k") {
    return {.sequence = number,
            .unix_ns = ns(now_),
            .kind = kind,
            .severity = "info",
            .share = share,
            .uuid = "GPU-1",
            .pid = 7,
            .uid = 8,
            .owner_uid = share.empty() ? std::nullopt : std::optional(share == "quiet" ? 10u : 9u),
            .text = "number " + std::to_string(number)};
  }
  static Events all_of(EventStore& store, const EventQuery& query = {}, std::size_t most = 1'000'000) {
    std::promise<Result<Events>> answer;
    store.read(
        query, most, [](const auto&) { return true; }, {.uid = 0, .waits = [] { return true; }},
        [&](Result<Events> found) { answer.set_value(std::move(found)); });
    auto found = answer.get_future().get();
    EXPECT_TRUE(found) << found.error().message;
    return found.value_or(Events{});
  }

  Scratch scratch_;
  std::string path_ = scratch_.path() + "/events.db";
  Time now_ = std::chrono::system_clock::now();
};

// The name makes it run first: ThreadSanitizer allows no threads in a forked child if its parent had some.
using EventStoreDeathTest = EventStoreTest;

TEST_F(EventStoreDeathTest, EventsSurviveAKillOfTheDaemon) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto store = EventStore::open(path_, {}, standing_clock());
    if (!store) ::_exit(1);
    const std::uint64_t first = (*store)->take_former().last + 1;
    for (std::uint64_t i = 0; i < 100; ++i) (*store)->add(event(first + i, i % 2 == 0 ? "train" : ""));
    if (all_of(**store).size() == 100) ::kill(::getpid(), SIGKILL);
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  now_ += std::chrono::seconds(1);
  const auto store = open();
  const auto former = store->take_former();
  ASSERT_EQ(former.events.size(), 100U);
  EXPECT_EQ(former.events, all_of(*store));
  now_ -= std::chrono::seconds(1);
  EXPECT_EQ(former.events[0], event(former.events[0].sequence, "train")) << "all of it";
  EXPECT_GT(former.last, former.events.back().sequence);
}

TEST_F(EventStoreTest, AFloodOfOneShareDropsNoOtherEvents) {
  const auto store = open({.rows = 800, .age = hours(1)});
  std::uint64_t number = store->take_former().last;
  for (int i = 0; i < 90; ++i) store->add(event(++number, "quiet"));
  for (int i = 0; i < 90; ++i) store->add(event(++number));
  for (int i = 0; i < 3000; ++i) store->add(event(++number, "loud"));
  EXPECT_EQ(all_of(*store, {.share = "quiet"}).size(), 90U);
  const auto loud = all_of(*store, {.share = "loud"});
  EXPECT_EQ(loud.size(), 100U) << "an eighth";
  EXPECT_EQ(loud.back().sequence, number) << "the newest";
  // Many names instead of one: the oldest go, the node's own events stay.
  for (int i = 0; i < 3000; ++i) store->add(event(++number, "loud" + std::to_string(i)));
  const auto all = all_of(*store);
  EXPECT_LE(all.size(), 800U);
  EXPECT_GT(all.size(), 700U);
  EXPECT_EQ(std::ranges::count(all, "", &snapshot::Event::share), 90);
  EXPECT_EQ(std::ranges::count(all, "quiet", &snapshot::Event::share), 90) << "another owner's";
}

TEST_F(EventStoreTest, AnOwnersNoiseDropsNoAuditFinding) {
  const auto store = open({.rows = 800, .age = hours(1)});
  std::uint64_t number = store->take_former().last;
  for (int i = 0; i < 90; ++i) store->add(event(++number, "loud", "audit.memory"));
  for (int i = 0; i < 3000; ++i) store->add(event(++number, "loud"));
  for (int i = 0; i < 3000; ++i) store->add(event(++number, "loud" + std::to_string(i)));
  EXPECT_EQ(all_of(*store, {.kind = "audit."}).size(), 90U);
  store->add(event(++number, "quiet", "audit.memory"));
  for (int i = 0; i < 3000; ++i) store->add(event(++number, "loud" + std::to_string(i), "audit.memory"));
  EXPECT_EQ(all_of(*store, {.share = "quiet"}).size(), 1U);
  EXPECT_LE(all_of(*store).size(), 800U);
}

TEST_F(EventStoreTest, TheNewestMatchesAreReturned) {
  const auto store = open();
  std::uint64_t number = store->take_former().last;
  for (int i = 0; i < 20; ++i) store->add(event(++number, i % 2 == 0 ? "a" : "b"));
  const auto newest = all_of(*store, {.share = "b", .newest = true}, 3);
  ASSERT_EQ(newest.size(), 3U);
  EXPECT_EQ(newest.front().sequence, number - 4) << "oldest first, as every answer";
  EXPECT_EQ(newest.back().sequence, number);
  EXPECT_EQ(store->rows(), 20U);
  EXPECT_TRUE(store->is_writing());
}

TEST_F(EventStoreTest, OldEventsAreRemoved) {
  std::uint64_t number = 0;
  {
    const auto store = open({.rows = 1000, .age = hours(24)});
    number = store->take_former().last;
    store->add(event(++number, "old"));
    all_of(*store);
  }
  now_ += hours(23);
  {
    EXPECT_EQ(open({.rows = 1000, .age = hours(24)})->take_former().events.size(), 1U);
  }
  now_ += hours(2);
  EXPECT_TRUE(open({.rows = 1000, .age = hours(24)})->take_former().events.empty());
}

TEST_F(EventStoreTest, SelectsByTimeShareKindAndNumberInPages) {
  const auto store = open();
  const std::uint64_t first = store->take_former().last + 1;
  for (std::uint64_t i = 0; i < 10; ++i) {
    auto one = event(first + i, i % 2 == 0 ? "a" : "b", i < 5 ? "memory.refused" : "share.set");
    one.unix_ns += i;
    store->add(one);
  }
  const auto count = [&](const EventQuery& query, std::size_t most = 100) {
    return all_of(*store, query, most).size();
  };
  EXPECT_EQ(count({.share = "a"}), 5U);
  EXPECT_EQ(count({.kind = "memory"}), 5U);
  EXPECT_EQ(count({.share = "a", .kind = "share."}), 2U);
  EXPECT_EQ(count({.since_unix_ns = ns(now_) + 7}), 3U);
  EXPECT_EQ(count({.after = first + 8}), 1U);
  EXPECT_EQ(count({.after = ~0ull}), 0U);
  EXPECT_EQ(all_of(*store, {.after = first}, 2).back().sequence, first + 2) << "the first of what is left";
}

// A query may read the whole file, and asking costs nothing.
TEST_F(EventStoreTest, AbandonedQueriesBlockNoOther) {
  const auto store = open();
  std::promise<void> looking, go_on;
  const auto asked = [&](std::uint32_t uid, bool waits, const EventStore::Answer& answer) {
    store->read({}, 1, [](const auto&) { return true; }, {.uid = uid, .waits = [waits] { return waits; }}, answer);
  };
  asked(0, true, [&](const auto&) { looking.set_value(), go_on.get_future().wait(); });
  looking.get_future().wait();
  const auto held = std::make_shared<int>();
  std::string order;  // the store's thread's
  for (int i = 0; i < 5000; ++i) asked(7, false, [&, held](const auto&) { order += "gone "; });
  EXPECT_LE(held.use_count(), 257);
  for (const char* const word : {"7a ", "7b "}) asked(7, true, [&, word](const auto&) { order += word; });
  std::promise<void> last;
  asked(8, true, [&](const auto&) { order += "8 "; });
  asked(7, true, [&](const auto&) { last.set_value(); });
  go_on.set_value();
  last.get_future().wait();
  EXPECT_EQ(order, "8 7a 7b ");
}

class FullDisk {
 public:
  FullDisk() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit less{1, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &less);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;

 private:
  sighandler_t handler_ = ::signal(SIGXFSZ, SIG_IGN);
  rlimit before_{};
};

// To SQLite a full disk is a write that stops short. RLIMIT_FSIZE causes one, in this process alone.
TEST_F(EventStoreTest, AFullDiskIsReportedAndEventsWrittenLater) {
  const auto store = open();
  std::uint64_t number = store->take_former().last;
  std::promise<Error> failed;
  std::promise<std::uint64_t> well;
  std::atomic<int> said = 0;
  store->tell_trouble([&](const std::optional<Error>& error, std::uint64_t lost) {
    ++said;
    if (error) failed.set_value(*error);
    else well.set_value(lost);
  });
  std::optional<FullDisk> full(std::in_place);
  for (int i = 0; i < 10; ++i) store->add(event(++number));
  const Error error = failed.get_future().get();
  EXPECT_TRUE(error.message.contains(path_)) << error.message;
  EXPECT_FALSE(error.hint.empty());
  for (int i = 0; i < 10'000; ++i) store->add(event(++number));
  EXPECT_TRUE(all_of(*store).empty()) << "reading goes on";
  full.reset();
  EXPECT_EQ(well.get_future().get(), 10'010 - EventStore::kMaxWaiting);
  const auto all = all_of(*store);
  EXPECT_EQ(all.size(), EventStore::kMaxWaiting);
  EXPECT_EQ(all.back().sequence, number);
  EXPECT_EQ(said, 2);
}

TEST_F(EventStoreTest, ReportsWhatASlowDiskLost) {
  std::promise<void> writing, go_on;
  std::promise<std::uint64_t> told;
  std::once_flag once;
  std::atomic<bool> armed = false;
  const auto store = open({}, [&, now = now_, released = go_on.get_future().share()] {
    if (armed)
      std::call_once(once, [&] {
        writing.set_value();
        released.wait();
      });
    return now;
  });
  store->tell_trouble([&](const std::optional<Error>& error, std::uint64_t lost) {
    if (!error) told.set_value(lost);
  });
  std::uint64_t number = store->take_former().last;
  armed = true;
  store->add(event(++number));
  writing.get_future().wait();  // the writer has taken that one and stands in its write
  for (std::size_t i = 0; i < EventStore::kMaxWaiting + 7; ++i) store->add(event(++number));
  go_on.set_value();
  EXPECT_EQ(told.get_future().get(), 7u);
}

TEST_F(EventStoreTest, AFailedDiskIsRetriedThoughTheClockWentBack) {
  std::promise<void> failed, well;
  std::atomic<bool> set_back = false;
  const auto store = open({}, [&, now = now_] { return set_back ? now - hours(1) : now; });
  store->tell_trouble([&](const std::optional<Error>& error, std::uint64_t) { (error ? failed : well).set_value(); });
  {
    const FullDisk full;
    store->add(event(store->take_former().last + 1));
    failed.get_future().get();
    set_back = true;
  }
  EXPECT_EQ(well.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST_F(EventStoreTest, AForeignFileIsLeftUnchanged) {
  std::ofstream(path_) << std::string(4096, 'x');
  EXPECT_TRUE(refusal().contains("not a database")) << refusal();
  std::filesystem::remove(path_);
  sqlite3* handle = nullptr;
  ASSERT_EQ(::sqlite3_open(path_.c_str(), &handle), SQLITE_OK);
  ::sqlite3_exec(handle, "CREATE TABLE a(b)", nullptr, nullptr, nullptr);
  ::sqlite3_close(handle);
  EXPECT_TRUE(refusal().contains("another program's")) << refusal();
  ASSERT_EQ(::sqlite3_open(path_.c_str(), &handle), SQLITE_OK);
  ::sqlite3_exec(handle, "PRAGMA user_version = 1", nullptr, nullptr, nullptr);
  ::sqlite3_close(handle);
  EXPECT_TRUE(refusal().contains("another program's")) << "its versions are numbered too: " << refusal();
}

}  // namespace
}  // namespace headgate::tenancy
