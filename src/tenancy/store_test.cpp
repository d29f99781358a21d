#include "tenancy/store.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>

#include "guest/ledger/registration.hpp"
#include "tenancy/test_shares.hpp"

namespace headgate::tenancy {
namespace {

namespace fs = std::filesystem;

class StoreTest : public ::testing::Test {
 protected:
  Store open() {
    auto store = Store::open(path_);
    if (!store) ADD_FAILURE() << store.error().message;
    return std::move(store).value();
  }
  std::string refusal() {
    auto store = Store::open(path_);
    return store ? "opened" : store.error().message;
  }
  // Edits the database as another program or the sqlite3 command would.
  void edit(const char* sql) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(::sqlite3_open(path_.c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(::sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK) << ::sqlite3_errmsg(handle);
    ::sqlite3_close(handle);
  }
  static Share full_share() {
    Share share = share_of("research", 1000, 8 * kGiB, 250'000);
    share.owner_gids = {7, 50};
    share.devices.push_back(share_of("x", 1, std::nullopt, 0, kGpu1).devices[0]);
    share.devices[0].host_limit_bytes = kGiB;
    share.devices[0].ceiling_ppm = 500'000;
    share.devices[0].weight = 700;
    share.devices[0].priority_class = Class::latency;
    share.fail_policy = ledger::FailPolicy::closed;
    share.overcommit = true;
    share.oversubscribe = true;
    share.until_empty = true;
    share.ttl = std::chrono::hours(8);
    share.idle_notice = std::chrono::minutes(30);
    share.freeze_after = std::chrono::minutes(10);
    share.admit = Admit::ask;
    share.oom_wait = std::chrono::seconds(7);
    share.created_at_s = 1'800'000'000;
    share.users = {1001, 1002};
    share.groups = {50};
    share.everyone = true;
    return share;
  }

  template <typename Act>
  static auto with_files_of_at_most(rlim_t bytes, Act act) {
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit less{bytes, before.rlim_max};
    const auto ignored = ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &less);
    auto result = act();
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, ignored);
    return result;
  }

  Scratch scratch_;
  std::string path_ = scratch_.path() + "/state.db";
};

TEST_F(StoreTest, SharesAndQuotasSurviveAReboot) {
  Quota quota;
  quota.subject = Quota::Subject::group;
  quota.id = 50;
  quota.memory_bytes = kGiB;
  quota.ttl = std::chrono::seconds(5);
  Quota other;
  other.id = 0;
  other.compute_ppm = 2'000'000;
  other.shares = 3;
  other.weight = 200;
  other.highest_class = Class::latency;
  {
    Store store = open();
    ASSERT_TRUE(store.put(full_share()));
    ASSERT_TRUE(store.put(share_of("b", 1, 5)));
    ASSERT_TRUE(store.put(quota));
    ASSERT_TRUE(store.put(other));
  }
  Store store = open();
  EXPECT_EQ(store.shares().value(), (std::vector{share_of("b", 1, 5), full_share()}));
  EXPECT_EQ(store.quotas().value(), (std::vector{other, quota}));
  other.weight.reset();
  ASSERT_TRUE(store.put(other));
  EXPECT_EQ(store.quotas().value(), (std::vector{other, quota}));
  ASSERT_TRUE(store.remove_quota(Quota::Subject::user, 0));
  other.highest_class.reset();
  ASSERT_TRUE(store.put(other));
  EXPECT_EQ(store.quotas().value(), (std::vector{other, quota})) << "nothing of a former quota comes back";
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(StoreTest, GpuPoliciesAreKeptUntilReset) {
  {
    Store store = open();
    ASSERT_TRUE(store.put_gpu_policy(kGpu0, "fair"));
    ASSERT_TRUE(store.put_gpu_policy(kGpu0, "priority"));
    ASSERT_TRUE(store.put_gpu_policy(kGpu1, "off"));
    ASSERT_TRUE(store.remove_gpu_policy(kGpu1));
    ASSERT_TRUE(store.remove_gpu_policy(kGpu1));
  }
  EXPECT_EQ(open().gpu_policies().value(), (std::map<std::string, std::string>{{kGpu0, "priority"}}));
}

TEST_F(StoreTest, PauseAndDrainAreStoredWithTheShare) {
  {
    Store store = open();
    ASSERT_TRUE(store.put(full_share()));
    EXPECT_EQ(store.command_of("research").value(), ledger::Command::run);
    ASSERT_TRUE(store.put_command("research", ledger::Command::pause));
    ASSERT_TRUE(store.put_command("research", ledger::Command::drain));
    ASSERT_TRUE(store.put(full_share()));
  }
  Store store = open();
  EXPECT_EQ(store.command_of("research").value(), ledger::Command::drain);
  ASSERT_TRUE(store.put_command("research", ledger::Command::pause_and_drain));
  EXPECT_EQ(store.command_of("research").value(), ledger::Command::pause_and_drain);
  ASSERT_TRUE(store.remove_share("research"));
  ASSERT_TRUE(store.put(full_share()));
  EXPECT_EQ(store.command_of("research").value(), ledger::Command::run);
}

TEST_F(StoreTest, AShareIsReplacedWholeAndRemovedWhole) {
  Store store = open();
  ASSERT_TRUE(store.put(full_share()));
  Share less = share_of("research", 1000, kGiB);
  ASSERT_TRUE(store.put(less));
  EXPECT_EQ(store.shares().value(), std::vector{less});
  ASSERT_TRUE(store.put_runs("research", {{4711, 1, {}}}));
  ASSERT_TRUE(store.remove_share("research"));
  ASSERT_TRUE(store.remove_share("research"));
  EXPECT_TRUE(store.shares().value().empty());
  EXPECT_TRUE(store.runs().value().empty()) << "or they would wait in the next share of that name";
}

TEST_F(StoreTest, AFullDiskKeepsTheOldShareAndNoHalfOne) {
  Store store = open();
  ASSERT_TRUE(store.put(full_share()));
  Share large = full_share();
  large.users.clear();
  for (std::uint32_t i = 0; i < 200'000; ++i) large.users.push_back(i);
  // To SQLite a full disk is a write that stops short. RLIMIT_FSIZE causes one, in this process alone.
  const auto put = with_files_of_at_most(256 << 10, [&] { return store.put(large); });
  ASSERT_FALSE(put);
  EXPECT_NE(put.error().hint.find("nothing was changed"), std::string::npos) << put.error().message;
  EXPECT_EQ(store.shares().value(), std::vector{full_share()});
}

TEST_F(StoreTest, ACorruptedFileIsRefusedUnchanged) {
  {
    ASSERT_TRUE(open().put(full_share()));
  }
  std::string bytes(8192, 'x');
  std::ofstream(path_, std::ios::binary) << bytes;
  EXPECT_EQ(refusal(), "the database " + path_ + ": file is not a database");
  EXPECT_EQ(fs::file_size(path_), 8192u);
}

TEST_F(StoreTest, ATornPageIsAnErrorNotAMissingShare) {
  {
    Store store = open();
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(store.put(share_of("s" + std::to_string(i), 1, 5)));
  }
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    for (std::streamoff page = 1; page < static_cast<std::streamoff>(fs::file_size(path_) / 4096); ++page) {
      file.seekp(page * 4096);
      file << std::string(4096, '\x7f');
    }
  }
  auto store = Store::open(path_);
  if (store) {
    const auto shares = store->shares();
    ASSERT_FALSE(shares);
    EXPECT_NE(shares.error().message.find("malformed"), std::string::npos) << shares.error().message;
    EXPECT_NE(shares.error().hint.find("backup"), std::string::npos);
  }
}

TEST_F(StoreTest, AFileOfANewerVersionOrAnotherProgramIsUntouched) {
  {
    open();
  }
  edit("PRAGMA user_version = 99");
  EXPECT_EQ(refusal(),
            "the database " + path_ + " was written by a newer headgate: schema 99, and this one knows up to 3");
  edit("PRAGMA application_id = 5");
  EXPECT_EQ(refusal(), "the database " + path_ + " is another program's");
}

TEST_F(StoreTest, SharesOfTheFirstSchemaAreRead) {
  ASSERT_TRUE(open().put(share_of("old", 1, 5)));
  edit("ALTER TABLE shares DROP COLUMN freeze_after_s; ALTER TABLE shares DROP COLUMN gang; PRAGMA user_version = 1");
  EXPECT_EQ(open().shares().value(), std::vector{share_of("old", 1, 5)});
  EXPECT_EQ(open().shares().value(), std::vector{share_of("old", 1, 5)});
  Share tied = share_of("tied", 1, 5);
  tied.gang = "ring";
  ASSERT_TRUE(open().put(tied));
  EXPECT_EQ(open().shares().value().back().gang, "ring");
}

TEST_F(StoreTest, TheIsolationOfAShareIsKeptAndGoesWithIt) {
  for (const Isolation isolation : {Isolation::mps, Isolation::timeslice}) {
    Share share = share_of("m", 1, 5);
    share.isolation = isolation;
    ASSERT_TRUE(open().put(share));
    EXPECT_EQ(open().shares().value(), std::vector{share});
    ASSERT_TRUE(open().remove_share("m"));
    ASSERT_TRUE(open().put(share_of("m", 1, 5)));
    EXPECT_EQ(open().shares().value().back().isolation, Isolation::hook);
    ASSERT_TRUE(open().remove_share("m"));
  }
}

TEST_F(StoreTest, InvalidValuesAreRefusedByNameNotTruncated) {
  ASSERT_TRUE(open().put(share_of("s", 1, 5)));
  edit("UPDATE shares SET owner_uid = -1");
  const auto shares = open().shares();
  ASSERT_FALSE(shares);
  EXPECT_EQ(shares.error().message, "the database " + path_ + ": owner_uid cannot be -1");
}

TEST_F(StoreTest, ASecondDaemonOnTheSameStateIsRefused) {
  Store store = open();
  sqlite3* other = nullptr;
  ASSERT_EQ(::sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto put = store.put(full_share());
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::busy);
  EXPECT_EQ(put.error().hint,
            "nothing was changed; another program holds it: try again when that has ended. Is a second headgated "
            "running with the same --state?");
  ::sqlite3_close(other);
}

// It blocks the daemon's loop: programs that join their shares would wait too, and give up.
TEST_F(StoreTest, AForeignLockDelaysTheDaemonOnlyBriefly) {
  Store store = open();
  sqlite3* other = nullptr;
  ASSERT_EQ(::sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  using Clock = std::chrono::steady_clock;
  auto shortest = Clock::duration::max();
  for (int i = 0; i < 5; ++i) {  // the machine may be slow at one of them
    const auto began = Clock::now();
    EXPECT_FALSE(store.put(full_share()));
    shortest = std::min(shortest, Clock::now() - began);
    EXPECT_FALSE(store.check());  // does not wait, and keeps the timeout of other calls
  }
  EXPECT_LT(shortest, std::chrono::nanoseconds(ledger::kRegistrationNs));
  EXPECT_GT(shortest, std::chrono::milliseconds(1)) << "a moment is waited for";
  ::sqlite3_close(other);
}

// In a child that may read and not write: CI is root.
TEST_F(StoreTest, AnUnwritableStateIsDeniedAtOnce) {
  {
    ASSERT_TRUE(open().put(full_share()));
  }
  fs::permissions(scratch_.path(), fs::perms(0755));
  fs::permissions(path_, fs::perms(0444));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(9);
    const auto store = Store::open(path_);
    ::_exit(!store && store.error().code == ErrorCode::denied && !store.error().hint.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Readiness checks call it, so it neither writes nor waits.
TEST_F(StoreTest, AnUnusableStoreReportsTheReason) {
  Store store = open();
  EXPECT_TRUE(store.check());
  sqlite3* other = nullptr;
  ASSERT_EQ(::sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto held = store.check();
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, ErrorCode::busy);
  ::sqlite3_close(other);
  EXPECT_TRUE(store.check());
  ASSERT_TRUE(store.put(full_share())) << "it holds nothing itself";
  fs::remove(path_);
  const auto gone = store.check();
  ASSERT_FALSE(gone);
  EXPECT_TRUE(gone.error().message.starts_with("the database " + path_)) << gone.error().message;
}

TEST_F(StoreTest, ChangesThatWouldNotSurviveAreRefused) {
  Store store = open();
  ASSERT_TRUE(store.put(full_share()));
  Quota quota;
  quota.shares = 3;
  ASSERT_TRUE(store.put(quota));
  const std::string name = full_share().name;
  const std::vector<std::pair<const char*, std::function<Result<void>()>>> changes = {
      {"a share", [&] { return store.put(full_share()); }},
      {"a quota", [&] { return store.put(quota); }},
      {"a drain", [&] { return store.put_command(name, ledger::Command::drain); }},
      {"no drain", [&] { return store.put_command(name, ledger::Command::run); }},
      {"runs", [&] { return store.put_runs(name, {}); }},
      {"a removal", [&] { return store.note_removal(name, true); }},
      {"a policy", [&] { return store.put_gpu_policy(kGpu0, "off"); }},
      {"no policy", [&] { return store.remove_gpu_policy(kGpu0); }},
      {"the end of a quota", [&] { return store.remove_quota(quota.subject, quota.id); }},
      {"the end of a share", [&] { return store.remove_share(name); }}};
  const auto expect_loss = [&](const char* where) {
    for (const auto& [what, change] : changes) {
      const auto done = change();
      ASSERT_FALSE(done) << what << ", " << where;
      EXPECT_EQ(done.error().code, ErrorCode::denied) << what;
      EXPECT_TRUE(done.error().message.starts_with("the database " + path_)) << done.error().message;
    }
  };
  fs::rename(path_, path_ + ".away");
  expect_loss("the file is gone");
  fs::copy(path_ + ".away", path_);
  expect_loss("it is another one");
  EXPECT_FALSE(store.check());
  fs::remove(path_);
  fs::rename(path_ + ".away", path_);
  EXPECT_TRUE(store.check());
  for (const auto& [what, change] : changes) EXPECT_TRUE(change()) << what;
}

}  // namespace
}  // namespace headgate::tenancy
