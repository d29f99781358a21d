#include "cli/support/doctor.hpp"

#include <gtest/gtest.h>

namespace headgate::cli {
namespace {

std::string mounted(const std::string& options) {
  return "22 27 0:21 / /sys rw - sysfs sysfs rw\n23 27 0:22 / /proc rw,nosuid shared:5 - proc proc " + options +
         "\n24 23 0:23 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw,fd=29\n";
}

TEST(ProcView, AProcWithoutHidepidIsNotMentioned) {
  for (const std::string options : {"rw", "rw,hidepid=0", "rw,hidepid=off,gid=4", ""})
    EXPECT_FALSE(proc_hiding(mounted(options))) << options;
  EXPECT_FALSE(proc_hiding(""));
  EXPECT_FALSE(proc_hiding("/proc - proc\n - - - -\n"));
}

TEST(ProcView, TheCapabilityOrTheGroupSeesAllProcesses) {
  const auto hiding = proc_hiding(mounted("rw,gid=27,hidepid=invisible"));
  ASSERT_TRUE(hiding);
  EXPECT_EQ(hiding->option, "hidepid=invisible");
  EXPECT_TRUE(sees_through(*hiding, "Name:\tx\nCapEff:\t000001ffffffffff\n"));
  EXPECT_TRUE(sees_through(*hiding, "Name:\tx\nGid:\t5\t5\t5\t5\nGroups:\t4 27 1000 \nCapEff:\t0000000000000000\n"));
  EXPECT_FALSE(sees_through(*hiding, "Name:\t27\nGid:\t5\t5\t5\t5\nGroups:\t4 127\nCapEff:\t0000000000000021\n"));
  EXPECT_FALSE(sees_through(*hiding, ""));
  const auto numbered = proc_hiding(mounted("rw,hidepid=2"));
  ASSERT_TRUE(numbered);
  EXPECT_FALSE(sees_through(*numbered, "Groups:\t4\n"));
  const auto strict = proc_hiding(mounted("rw,gid=27,hidepid=ptraceable"));
  ASSERT_TRUE(strict);
  EXPECT_FALSE(sees_through(*strict, "Groups:\t27\n"));
}

TEST(ProcView, TheTopmostMountCounts) {
  EXPECT_FALSE(proc_hiding(mounted("rw,hidepid=2") + "40 23 0:50 / /proc rw - proc proc rw\n"));
}

}  // namespace
}  // namespace headgate::cli
