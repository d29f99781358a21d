#include "daemon/journal.hpp"

#include <gtest/gtest.h>

namespace headgate::daemon {
namespace {

TEST(Journal, ALineHasItsLevelOnlyWhereTheJournalReadsIt) {
  EXPECT_EQ(journal_line(JournalLevel::warning, "a share lacks memory", true), "<4>headgated: a share lacks memory");
  EXPECT_EQ(journal_line(JournalLevel::error, "x", true), "<3>headgated: x");
  EXPECT_EQ(journal_line(JournalLevel::info, "ready", false), "headgated: ready");
}

// A name in it could otherwise write lines of its own, with a level of its own.
TEST(Journal, AMessageIsOneLineWhateverNamesAreInIt) {
  EXPECT_EQ(journal_line(JournalLevel::info, "a\n<0>b\x1b[2J", true), "<6>headgated: a <0>b?[2J");
}

TEST(Journal, EachEventOfWarningAndAboveStandsInItOnce) {
  const auto level = [](const char* kind, const char* severity) {
    return journal_level({.kind = kind, .severity = severity});
  };
  EXPECT_EQ(level("memory.refused", "warn"), JournalLevel::warning);
  EXPECT_EQ(level("share.broken", "error"), JournalLevel::error);
  EXPECT_EQ(level("process.joined", "info"), std::nullopt);
  EXPECT_EQ(level("events.unsaved", "error"), std::nullopt) << "said with its cause already";
}

}  // namespace
}  // namespace headgate::daemon
