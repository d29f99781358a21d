// The limiter in a container's root, loaded by its /etc/ld.so.preload alone: every program in the root loads it,
// whatever its environment.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

// A root with real programs and their C library, the simulated driver in the place of the container's driver, and no
// /proc.
constexpr const char* kMakeRoot = R"sh(
  set -e; cd $D; mkdir -p root/etc root/tmp root/node root/run/headgate/share root/dev
  put() { mkdir -p "root$(dirname "$2")"; cp -L "$1" "root$2"; }
  libraries() { ldd "$@" | grep -o '/[^ :]* (' | cut -d' ' -f1 | sort -u; }
  for file in /bin/sh /bin/ls /usr/bin/env \
      $(libraries /bin/sh /bin/ls /usr/bin/env $TENANT $SIM/libcuda.so.1 ${H%/*}/../lib/libheadgate.so); do
    put $file $file
  done
  where=$(libraries /bin/sh | grep 'libc\.so\.6'); where=${where%/*}
  put $SIM/libcuda.so.1 $where/libcuda.so.1; put $SIM/libnvidia-ml.so.1 $where/libnvidia-ml.so.1
  put $TENANT /tenant; put $TENANT /raised; put $STATIC /static
  chgrp 65534 root/raised; chmod 2755 root/raised)sh";

class PreloadRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!may_mount()) GTEST_SKIP() << "no mount namespaces here";
    ASSERT_EQ(shell("$H share create alice --mem 4GiB").status, 0);
    const Said made = shell(kMakeRoot);
    ASSERT_EQ(made.status, 0) << made.err;
  }

  [[nodiscard]] Said shell(const std::string& line) const {
    return daemon_.cli().shell("TENANT=" BYPASS_PROGRAM " STATIC=" BYPASS_STATIC "\n" + line);
  }
  // Runs a line with /bin/sh inside the root. The environment has only the simulated node's path. The share's directory
  // is mounted as in a container, read-only.
  [[nodiscard]] Said inside(const std::string& line) const {
    return shell("cat > $D/line <<'END'\n" + line + "\nEND\n" + R"sh(exec unshare -m sh -c '
        mount --bind $D/node $D/root/node && mount --bind $HEADGATE_RUNTIME_DIR/shares/alice $D/root/run/headgate/share &&
        mount -o remount,bind,ro $D/root/run/headgate/share &&
        exec chroot $D/root /usr/bin/env -i HEADGATE_SIM_DIR=/node /bin/sh -c "$(cat $D/line)"')sh");
  }
  // 3000 MiB, which fit beside a context, and another 3000, which do not.
  static std::string asks(const std::string& program) {
    return "printf 'alloc 3145728000\\nalloc 3145728000\\n' | " + program + " libcuda.so.1";
  }

  Daemon daemon_;
};

TEST_F(PreloadRoot, HoldsEveryProgramOfTheRootAndNoOther) {
  const Said listed = inside("ls /; echo $?");
  ASSERT_EQ(listed.err, "");
  ASSERT_TRUE(listed.out.contains("etc\n") && listed.out.ends_with("0\n")) << listed.out;
  EXPECT_EQ(inside(asks("/tenant")).out, "ready 0\n0\n0\n") << "nothing holds it yet";

  Said said = shell("$H limiter install --root $D/root /usr/lib/headgate");
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(shell("cat $D/root/etc/ld.so.preload").out, "/usr/lib/headgate/libheadgate.so\n");

  said = inside("ls /; echo $?");
  EXPECT_EQ(said.out, listed.out);
  EXPECT_EQ(said.err, "");
  EXPECT_EQ(inside("/usr/bin/env").out,
            inside("/usr/bin/env | /usr/bin/env -i /usr/bin/env; echo HEADGATE_SIM_DIR=/node; echo PWD=/").out);
  for (const char* how :
       {"/tenant", "/usr/bin/env -i HEADGATE_SIM_DIR=/node /tenant", "LD_PRELOAD= HEADGATE_DISABLE=1 /tenant",
        "LD_PRELOAD=/usr/lib/headgate/libheadgate.so /tenant", "/raised", "HEADGATE_DISABLE=1 /raised"}) {
    said = inside(asks(how));
    EXPECT_EQ(said.out, "ready 0\n0\n2\n") << how;
    EXPECT_EQ(said.err, "") << how;
  }
  said = inside(asks("/static"));
  EXPECT_EQ(said.out, "ready 0\n0\n0\n") << "no loader, no preload: the audit's to name";
  EXPECT_EQ(said.err, "");
  EXPECT_TRUE(eventually([this] { return daemon_.share("alice").devices.at(0).refusals == 6; }));

  ASSERT_EQ(shell("$H limiter remove --root $D/root /usr/lib/headgate").status, 0);
  EXPECT_EQ(shell("find $D/root -name '*headgate*' -o -name 'ld.so*' | sed s:$D/root::").out, "/run/headgate\n");
  EXPECT_EQ(inside(asks("/tenant")).out, "ready 0\n0\n0\n");
}

}  // namespace
}  // namespace headgate::e2e
