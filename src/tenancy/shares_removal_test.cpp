// What a share's removal waits for, and what is left of one that fails.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "tenancy/test_live_shares.hpp"

namespace headgate::tenancy {
namespace {

namespace fs = std::filesystem;

class SharesRemovalTest : public SharesTest {
 protected:
  // Edits the database as another program or the sqlite3 command would.
  void edit(const char* sql) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(::sqlite3_open(state_.c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(::sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK) << ::sqlite3_errmsg(handle);
    ::sqlite3_close(handle);
  }

  // With many processes, one call searches only a part of them for users of a damaged page.
  static Result<void> remove(Shares& from) {
    for (;;)
      if (auto done = from.remove("s"); done || !done.error().message.contains("is looked for")) return done;
  }
};

TEST_F(SharesRemovalTest, AShareWithAWaitingRunEndsWithThatRun) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("s", 1, kGiB))), "done");
  const auto run = static_cast<std::uint32_t>(::getpid());
  ASSERT_EQ(words(shares.attach_run("s", run, {})), "done");
  EXPECT_EQ(words(shares.remove("s", run + 1)),
            "the share 's' is in use by 1 headgate run, whose programs may come back to it");
  EXPECT_EQ(words(shares.remove("s", run)), "done");
}

// New pages would bring the share back, with empty accounts.
TEST_F(SharesRemovalTest, AShareWithOnlyAStuckRowIsNotRecreated) {
  enum class End { goes_on, starts_anew, damaged, damaged_and_killed_in_the_midst };
  for (const End end : {End::goes_on, End::starts_anew, End::damaged, End::damaged_and_killed_in_the_midst}) {
    SCOPED_TRACE(static_cast<int>(end));
    const bool restarted = end != End::goes_on, damaged = end >= End::damaged;
    const std::string aside = base_ + "/shares/.removed-s";
    if (damaged && !fs::exists("/proc/self/maps")) continue;
    std::optional<Shares> shares(start());
    ASSERT_EQ(words(shares->create(share_of("s", 1, kGiB))), "done");
    if (damaged) shares->find("s")->damage = "scribbled";
    edit("CREATE TRIGGER kept BEFORE DELETE ON shares BEGIN SELECT RAISE(ABORT, 'kept'); END");
    EXPECT_TRUE(remove(*shares).error().message.contains("kept"));
    EXPECT_FALSE(fs::exists(base_ + "/shares/s"));
    EXPECT_FALSE(fs::exists(aside));
    if (end == End::damaged_and_killed_in_the_midst) fs::create_directories(aside + "/usage");
    EXPECT_NE(words(shares->pause("s")), "done");
    edit("DROP TRIGGER kept");
    if (restarted) shares.reset(), shares.emplace(start());
    else EXPECT_EQ(words(shares->remove("s")), "done");
    EXPECT_EQ(shares->find("s"), nullptr);
    EXPECT_FALSE(fs::exists(base_ + "/shares/s"));
    EXPECT_FALSE(fs::exists(aside));
    EXPECT_TRUE(Store::open(state_)->shares()->empty());
  }
}

TEST_F(SharesRemovalTest, ADamagedShareIsRemovedOnceNoProcessMapsIt) {
  if (!fs::exists("/proc/self/maps")) GTEST_SKIP() << "skipped: only /proc tells which processes have a file mapped";
  for (const bool restarted : {false, true}) {
    std::optional<Shares> shares(start());
    ASSERT_EQ(words(shares->create(share_of("s", 1, 8 * kGiB))), "done");
    const std::string usage = shares->directory("s") + "/usage";
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    const pid_t tenant = ::fork();
    if (tenant == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int fd = ::open(usage.c_str(), O_RDWR);
      auto* const page = static_cast<ledger::UsagePage*>(
          ::mmap(nullptr, sizeof(ledger::UsagePage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
      page->header.magic = 0;
      (void)!::write(told[1], "x", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    ASSERT_EQ(::read(told[0], &byte, 1), 1);
    ::close(told[0]), ::close(told[1]);
    if (restarted) {
      shares.reset();
      shares.emplace(start());
      EXPECT_TRUE(shares->find("s")->broken);
    } else {
      shares->find("s")->damage = "scribbled";
    }
    const auto refused = remove(*shares);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("in use by process " + std::to_string(tenant)), std::string::npos)
        << refused.error().message;
    ::kill(tenant, SIGKILL);
    ::waitpid(tenant, nullptr, 0);
    EXPECT_EQ(words(remove(*shares)), "done");
    EXPECT_FALSE(fs::exists(shares->directory("s")));
    EXPECT_EQ(shares->find("s"), nullptr);
  }
}

}  // namespace
}  // namespace headgate::tenancy
