#include <gtest/gtest.h>

#include "cli/top/test_node.hpp"
#include "cli/view/names.hpp"
#include "cli/view/views.hpp"

namespace headgate::cli {
namespace {

// Without this, users would not see that headgate stopped the program, nor how to resume it.
TEST(Ps, AFrozenProcessIsShownWithTheCommandToThawIt) {
  NodeSnapshot now;
  now.now = test_picture();
  auto& inside = now.now.processes[1];
  auto& outside = now.now.processes[3];
  inside.freeze = outside.freeze = snapshot::Freeze{"/x", "echo 0 > /sys/fs/cgroup/x/cgroup.freeze"};
  const std::string table = ps_text(now, {});
  EXPECT_TRUE(table.contains("52.0 %  frozen by the audit  host\n")) << table;
  EXPECT_TRUE(table.contains("10.0 %  frozen by the audit  host\n")) << table;
  EXPECT_TRUE(ps_json(now).contains("echo 0 > /sys/fs/cgroup/x/cgroup.freeze"));
  const std::string words =
      "frozen by the audit (audit.policy = freeze) with its cgroup /x: it stands still and keeps its memory\n"
      "    to let it go on, as root: echo 0 > /sys/fs/cgroup/x/cgroup.freeze\n";
  const std::string why = why_not_held(now, outside, {});
  EXPECT_TRUE(why.contains("  " + words)) << why;
  const std::string why_share = why_text(now, now.now.shares, {});
  EXPECT_TRUE(why_share.contains("  process 48121 is " + words)) << why_share;
}

}  // namespace
}  // namespace headgate::cli
