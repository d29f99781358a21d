#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/user_name.hpp"
#include "guest/ledger/slot.hpp"
#include "node/test_node.hpp"

namespace headgate::node {
namespace {

// A node with one share and a daemon that can restart, in the test's own time.
class ShareExpiryTest : public TestNode {
 protected:
  void create(ShareRequest order) {
    order.name = "s";
    order.mem = "8GiB";
    const auto made = node_->service.create(order, caller_, gpus_);
    ASSERT_TRUE(made) << made.error().message;
  }
  [[nodiscard]] std::int64_t made_at() { return node_->shares().find("s")->share.created_at_s; }
  [[nodiscard]] ledger::Command command() {
    return node_->shares().find("s")->pages->policy().command.load(std::memory_order_relaxed);
  }
  // The share as a snapshot made now shows it.
  [[nodiscard]] snapshot::Share shown() {
    snapshot::Share share;
    share.name = "s";
    share.generation = generation();
    return share;
  }
  [[nodiscard]] std::uint64_t generation() {
    const auto* const live = node_->shares().find("s");
    return live == nullptr || live->pages == nullptr ? 0 : live->pages->policy().generation;
  }
  // Takes a snapshot in which the share has used no GPU for so long; returns how many events of that kind there are.
  std::size_t told(const std::string& kind, std::int64_t now_s, std::uint64_t idle_s = 0) {
    snapshot::Snapshot snapshot;
    snapshot.shares.push_back(shown());
    snapshot.shares.back().idle_ns = idle_s * 1'000'000'000;
    node_->keep_time(snapshot, now_s);
    const auto all = events_->after(0);
    return static_cast<std::size_t>(std::ranges::count(all, kind, &snapshot::Event::kind));
  }
  // Takes a slot in the share for this process.
  void sit() {
    ASSERT_EQ(ledger::claim(node_->shares().find("s")->pages->usage(), ledger::own_identity(), "keep_time_test", slot_),
              ledger::ClaimResult::claimed);
  }
  void rise() { ledger::release(node_->shares().find("s")->pages->usage(), slot_); }

  const Caller caller_{.uid = ::geteuid(), .administrator = true};
  ledger::SlotRef slot_;
};

// It could not be seen freed: the daemon itself had closed the driver.
TEST_F(ShareExpiryTest, MemoryGivenUpDuringAReleaseIsNoWarning) {
  create({});
  auto& given_up = node_->shares().find("s")->pages->usage().teardowns_given_up;
  const auto told_when = [&](bool released) {
    snapshot::Snapshot snapshot;
    snapshot.node.nvml_released = released;
    snapshot.shares.push_back(shown());
    node_->keep_time(snapshot, made_at());
    const auto all = events_->after(0);
    return std::ranges::count(all, "memory.given_up", &snapshot::Event::kind);
  };
  given_up = 1000;
  EXPECT_EQ(told_when(true), 0);
  EXPECT_EQ(told_when(false), 0) << "nor afterwards";
  given_up = 2000;
  EXPECT_EQ(told_when(false), 1);
}

// A small file system under the node's directory, mounted as long as this lives.
class SmallRuntime {
 public:
  explicit SmallRuntime(std::string path) : path_(std::move(path)) {
    mounted_ = ::mount("none", path_.c_str(), "tmpfs", 0, "size=20m") == 0;
  }
  ~SmallRuntime() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallRuntime(const SmallRuntime&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_ = false;
};

TEST_F(ShareExpiryTest, ANearlyFullFileSystemIsReported) {
  create({});
  EXPECT_EQ(told("runtime.low", made_at()), 0U);
  const SmallRuntime small(options_.runtime_dir);
  if (!small.mounted()) GTEST_SKIP() << "only CAP_SYS_ADMIN may mount";
  EXPECT_EQ(told("runtime.low", made_at()), 0U);
  const std::string filler = options_.runtime_dir + "/filler";
  std::ofstream(filler) << std::string(17 << 20, 'x');
  EXPECT_EQ(told("runtime.low", made_at()), 1U);
  EXPECT_EQ(told("runtime.low", made_at()), 1U) << "once";
  std::filesystem::remove(filler);
  EXPECT_EQ(told("runtime.enough", made_at()), 1U);
}

TEST_F(ShareExpiryTest, TheLastRoomForPagesIsForAdministrators) {
  const SmallRuntime small(options_.runtime_dir);
  if (!small.mounted()) GTEST_SKIP() << "only CAP_SYS_ADMIN may mount";
  std::filesystem::create_directory(options_.runtime_dir + "/shares");
  const auto refused = node_->service.create({.name = "u", .mem = "1GiB"}, {.uid = 4000001}, gpus_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_capacity);
  EXPECT_TRUE(refused.error().message.contains("the last 16 are kept for administrators")) << refused.error().message;
}

// The last snapshot is up to a second old.
TEST_F(ShareExpiryTest, ANewShareReportsNothingOfItsPredecessor) {
  create({.idle_notice = "5m"});
  snapshot::Snapshot snapshot;
  snapshot.shares.push_back(shown());
  snapshot.shares[0].idle_ns = 3'600'000'000'000;
  snapshot.shares[0].devices.emplace_back().refusals = 7;
  ASSERT_TRUE(node_->service.remove("s", caller_));
  create({.idle_notice = "5m"});
  node_->keep_time(snapshot, made_at());
  EXPECT_EQ(told("share.idle", made_at(), 1), 0u);
  snapshot.shares[0].generation = generation();
  snapshot.shares[0].devices[0].refusals = 0;
  node_->keep_time(snapshot, made_at());
  snapshot.shares[0].devices[0].refusals = 1;
  node_->keep_time(snapshot, made_at());
  EXPECT_EQ(told("memory.refused", made_at()), 1u);
}

TEST_F(ShareExpiryTest, RefusalsAreReportedForTheirGpu) {
  create({});
  snapshot::Snapshot snapshot;
  snapshot.shares.push_back(shown());
  auto& devices = snapshot.shares[0].devices;
  devices.resize(2);
  devices[0].uuid = "GPU-0000";
  devices[1].uuid = "GPU-1111";
  devices[0].refusals = 1;
  devices[0].last_refusal = snapshot::Refusal{.asked_bytes = 1ull << 30, .reason = "limit"};
  node_->keep_time(snapshot, made_at());
  devices[1].refusals = 2;
  devices[1].last_refusal = snapshot::Refusal{.asked_bytes = 5ull << 30, .reason = "device_full"};
  node_->keep_time(snapshot, made_at());
  std::vector<std::string> told;
  for (const auto& event : events_->after(0))
    if (event.kind == "memory.refused") told.push_back(event.uuid + ": " + event.text);
  EXPECT_EQ(told,
            (std::vector<std::string>{"GPU-0000: s asked 1.0 GiB on GPU-0000: refused",
                                      "GPU-1111: s asked 5.0 GiB on GPU-1111: refused: the card was full, 2 times"}));
}

TEST_F(ShareExpiryTest, IdleSharesAreReportedOnceForEachIdleTime) {
  create({.idle_notice = "5m"});
  const std::int64_t now = made_at();
  EXPECT_EQ(told("share.idle", now, 299), 0u);
  EXPECT_EQ(told("share.idle", now + 1, 300), 1u);
  EXPECT_EQ(told("share.idle", now + 2, 301), 1u) << "it is idle still";
  EXPECT_EQ(told("share.idle", now + 3, 0), 1u) << "at work";
  EXPECT_EQ(told("share.idle", now + 4, 299), 1u);
  EXPECT_EQ(told("share.idle", now + 5, 310), 2u) << "idle again";
  const auto all = events_->after(0);
  const auto event = std::ranges::find(all, "share.idle", &snapshot::Event::kind);
  EXPECT_EQ(event->share, "s");
  EXPECT_EQ(event->owner_uid, ::geteuid());
  EXPECT_NE(event->text.find("5 min"), std::string::npos) << event->text;

  start();
  EXPECT_EQ(told("share.idle", now + 6, 1), 0u) << "a new daemon counts from its own start";
  EXPECT_EQ(told("share.idle", now + 7, 300), 1u);
  ASSERT_TRUE(node_->service.set("s", {.idle_notice = "none"}, caller_, gpus_));
  EXPECT_EQ(told("share.idle", now + 8, 0), 1u);
  EXPECT_EQ(told("share.idle", now + 9, 900), 1u) << "the notice is switched off";
}

TEST_F(ShareExpiryTest, AnExpiredShareEndsWithItsLastProgram) {
  create({.ttl = "1h"});
  sit();
  const std::int64_t end = made_at() + 3600;
  EXPECT_EQ(told("share.expired", end - 1), 0u);
  EXPECT_EQ(command(), ledger::Command::run);
  EXPECT_EQ(told("share.expired", end), 1u);
  EXPECT_EQ(told("share.expired", end + 1), 1u) << "once";
  EXPECT_EQ(command(), ledger::Command::drain);
  const auto all = events_->after(0);
  const auto event = std::ranges::find(all, "share.expired", &snapshot::Event::kind);
  EXPECT_NE(event->text.find("of " + user_name(::geteuid()) + " has expired"), std::string::npos) << event->text;
  EXPECT_NE(event->text.find("the last of its 1 program"), std::string::npos) << event->text;
  EXPECT_FALSE(node_->service.resume("s", caller_)) << "its time is over";

  start();
  EXPECT_EQ(told("share.expired", end + 2), 0u) << "the daemon before has told it";
  EXPECT_EQ(command(), ledger::Command::drain);
  EXPECT_EQ(told("share.ended", end + 3), 0u);
  rise();
  EXPECT_EQ(told("share.ended", end + 4), 1u);
  EXPECT_EQ(node_->shares().find("s"), nullptr);
}

TEST_F(ShareExpiryTest, AnExtendedShareOpensAgain) {
  create({.ttl = "1h"});
  sit();
  const std::int64_t end = made_at() + 3600;
  EXPECT_EQ(told("share.expired", end), 1u);
  ASSERT_TRUE(node_->service.set("s", {.ttl = "2h"}, caller_, gpus_));
  EXPECT_EQ(command(), ledger::Command::run) << "at once";
  EXPECT_EQ(told("share.expired", end + 1), 1u);
  EXPECT_EQ(command(), ledger::Command::run);
  EXPECT_EQ(told("share.expired", end + 3600), 2u) << "and it is over again";
  rise();
}

TEST_F(ShareExpiryTest, AClockThatWentBackCancelsTheEnd) {
  create({.ttl = "1h"});
  sit();
  const std::int64_t end = made_at() + 3600;
  EXPECT_EQ(told("share.expired", end), 1u);
  start();
  EXPECT_EQ(command(), ledger::Command::drain);
  told("share.expired", end - 1);
  EXPECT_EQ(command(), ledger::Command::run);
  rise();
}

TEST_F(ShareExpiryTest, TheSocketIsToldOnceThatTheShareExpired) {
  create({.ttl = "1h"});
  sit();
  int heard = 0;
  node_->managed.watch({.made = {}, .gone = {}, .changed = [&](const std::string&) { ++heard; }});
  for (std::int64_t look = 0; look < 3; ++look) told("share.expired", made_at() + 3600 + look);
  EXPECT_EQ(heard, 1);
  rise();
}

TEST_F(ShareExpiryTest, ADrainedShareStaysDrainedAfterItIsExtended) {
  create({.ttl = "1h"});
  sit();
  const std::int64_t end = made_at() + 3600;
  ASSERT_TRUE(node_->service.drain("s", caller_));
  EXPECT_EQ(told("share.expired", end), 0u) << "it drains already";
  ASSERT_TRUE(node_->service.set("s", {.ttl = "2h"}, caller_, gpus_));
  EXPECT_EQ(command(), ledger::Command::drain);
  EXPECT_EQ(told("share.expired", end + 1), 0u);
  EXPECT_EQ(command(), ledger::Command::drain);
  node_.reset();
  std::filesystem::remove_all(scratch_.path() + "/run");  // a reboot
  start();
  EXPECT_EQ(command(), ledger::Command::drain);
  ASSERT_TRUE(node_->service.resume("s", caller_));
  EXPECT_EQ(command(), ledger::Command::run);
}

TEST_F(ShareExpiryTest, ARunsShareEndsWithItsLastUnseenProgram) {
  create({.until_empty = true});
  const std::int64_t made = made_at();
  EXPECT_EQ(told("share.ended", made + 1), 0u) << "its program may still come";
  sit();
  rise();
  start();
  EXPECT_EQ(told("share.ended", made + 2), 1u);
  EXPECT_EQ(node_->shares().find("s"), nullptr);
}

TEST_F(ShareExpiryTest, AnExpiredShareWithAWaitingRunEndsWithTheRun) {
  create({.ttl = "1h"});
  ASSERT_TRUE(node_->shares().attach_run("s", static_cast<std::uint32_t>(::getpid())));
  EXPECT_EQ(told("share.expired", made_at() + 3600), 1u);
  const auto all = events_->after(0);
  const auto event = std::ranges::find(all, "share.expired", &snapshot::Event::kind);
  EXPECT_NE(event->text.find("it ends with the headgate run that is in it"), std::string::npos) << event->text;
}

TEST_F(ShareExpiryTest, AGuestsRunHoldsAShareOnlyWhileAdmitted) {
  create({});
  tenancy::Share& share = node_->shares().find("s")->share;
  share.users = {4711};
  const auto enter = [&](Caller caller) {
    caller.pid = static_cast<std::uint32_t>(::getppid());
    return node_->access.entry("s", caller, true).has_value();
  };
  ASSERT_TRUE(enter({.uid = 4711}));
  const auto refused = node_->service.remove("s", caller_);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().hint.contains("once it admits them no longer")) << refused.error().hint;
  share.users.clear();
  ASSERT_TRUE(enter(caller_));
  const auto held = node_->service.remove("s", caller_);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().hint, "end them first: kill " + std::to_string(::getppid()));
  share.users = {4711};
  ASSERT_TRUE(enter({.uid = 4711}));
  share.users.clear();
  EXPECT_TRUE(node_->service.remove("s", caller_));
}

TEST_F(ShareExpiryTest, APausedShareStaysPausedAfterItExpired) {
  create({.ttl = "1h"});
  sit();
  const std::int64_t end = made_at() + 3600;
  ASSERT_TRUE(node_->service.pause("s", caller_));
  EXPECT_EQ(told("share.expired", end), 1u);
  EXPECT_EQ(command(), ledger::Command::pause_and_drain) << "its programs are not set going, nor given more memory";
  ASSERT_TRUE(node_->service.resume("s", caller_));
  EXPECT_EQ(told("share.expired", end + 1), 1u);
  EXPECT_EQ(command(), ledger::Command::drain);
  rise();
}

// Its tenants still have their descriptors, and what they fill is the file system of all shares.
TEST_F(ShareExpiryTest, ThePageOfABrokenShareIsTruncatedToo) {
  create({});
  const std::string pages = node_->shares().directory("s");
  node_.reset();
  const std::uint32_t version = ledger::kVersion + 1;
  std::fstream policy(pages + "/policy", std::ios::in | std::ios::out | std::ios::binary);
  policy.seekp(offsetof(ledger::PageHeader, version));
  policy.write(reinterpret_cast<const char*>(&version), sizeof version);
  policy.close();
  start();
  ASSERT_TRUE(node_->shares().find("s")->broken);
  std::filesystem::resize_file(pages + "/usage", 1u << 26);
  observe::JoinInput input;
  node_->snapshots.add_ledgers(input);
  EXPECT_LT(std::filesystem::file_size(pages + "/usage"), 1u << 24);
}

}  // namespace
}  // namespace headgate::node
