#include "daemon/journal.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace headgate::daemon {
namespace {

TEST(Journal, ALineHasALevelOnlyIfTheJournalReadsIt) {
  EXPECT_EQ(journal_line(JournalLevel::warning, "a share lacks memory", true), "<4>headgated: a share lacks memory");
  EXPECT_EQ(journal_line(JournalLevel::error, "x", true), "<3>headgated: x");
  EXPECT_EQ(journal_line(JournalLevel::info, "ready", false), "headgated: ready");
}

// A name in it could otherwise inject lines with any level.
TEST(Journal, AMessageIsOneLineForAnyName) {
  EXPECT_EQ(journal_line(JournalLevel::info, "a\n<0>b\x1b[2J", true), "<6>headgated: a <0>b?[2J");
}

TEST(Journal, EachWarningAppearsInItOnce) {
  const auto level = [](const char* kind, const char* severity) {
    return journal_level({.kind = kind, .severity = severity});
  };
  EXPECT_EQ(level("memory.refused", "warn"), JournalLevel::warning);
  EXPECT_EQ(level("share.broken", "error"), JournalLevel::error);
  EXPECT_EQ(level("process.joined", "info"), std::nullopt);
  EXPECT_EQ(level("events.unsaved", "error"), std::nullopt) << "said with its cause already";
}

// systemd-journald, or a program that started us, may read nothing for a while.
TEST(Journal, AStoppedReaderBlocksNothing) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const int former = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  for (int i = 0; i < 10'000; ++i) journal(JournalLevel::info, std::string(100, 'x'));
  std::string all(1 << 20, '\0');
  const ssize_t first = ::read(ends[0], all.data(), all.size());
  journal(JournalLevel::info, "it reads again");
  const ssize_t next = ::read(ends[0], all.data(), all.size());
  ::dup2(former, STDERR_FILENO);
  for (const int fd : {ends[0], ends[1], former}) ::close(fd);
  EXPECT_GT(first, 0);
  ASSERT_GT(next, 0);
  all.resize(static_cast<std::size_t>(next));
  EXPECT_TRUE(all.contains(" lines were lost: nothing read standard error\n")) << all;
  EXPECT_TRUE(all.ends_with("headgated: it reads again\n")) << all;
}

}  // namespace
}  // namespace headgate::daemon
