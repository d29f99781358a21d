// Tenants of users other than the daemon's: their GPU time is attributed as precisely as root's
// (guest/ledger/gpu_page.hpp).
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

using nlohmann::json;

// Runs two users' programs with kernels of 5 ms at the same time. Returns the percentage of the GPU that each had by
// its own report.
struct Had {
  double first = 0, second = 0;
};
Had together(const Cli& cli, const std::string& first, const std::string& second) {
  const Said said = cli.shell(
      "mkdir $D/files; cp " HEADGATE_LOAD " $SIM/lib*.so* " HEADGATE_LIMITER
      " $D/files; chmod -R a+rX $D/files; chmod 755 $D; cd /; "
      "echo 'node.callers = \"all\"' > $D/all.toml; XDG_STATE_HOME=$D/state " HEADGATE_DAEMON
      " --sim --config $D/all.toml > $D/log 2>&1 & daemon=$!; "
      "until $H share ls > /dev/null 2>&1; do kill -0 $daemon || exit 9; sleep 0.05; done; "
      "$H share create first --mem 2GiB --user 3001 " +
      first + " > /dev/null; $H share create second --mem 2GiB --user 3002 " + second +
      " > /dev/null; "
      "as() { HEADGATE_SHARE_DIR=$D/run/shares/$2 HEADGATE_SIM_DIR=$D/run/sim/default LD_LIBRARY_PATH=$D/files "
      "LD_PRELOAD=$D/files/$(basename " HEADGATE_LIMITER
      ") setpriv --reuid $1 --regid $1 --clear-groups $D/files/headgate-load "
      "--kernels=5ms --duration=4s --no-idle-list; }; "
      "as 3001 first > $D/first & a=$!; as 3002 second > $D/second & b=$!; wait $a $b; $H share ls >&2; "
      "ls $D/run/gpus 2> /dev/null; kill $daemon; wait $daemon; cat $D/first $D/second");
  Had had;
  double* const part[] = {&had.first, &had.second};
  std::size_t at = 0;
  for (double* each : part) {
    const std::size_t end = said.out.find('\n', at);
    const json report = json::parse(said.out.substr(at, end - at), nullptr, false);
    EXPECT_TRUE(report.is_object()) << said.out << said.err;
    if (!report.is_object()) return had;
    *each = report.at("kernel_us").get<double>() / 4e6 * 100;
    at = end + 1;
  }
  std::printf("had %.2f and %.2f %%\n%s", had.first, had.second, said.err.c_str());
  return had;
}

// If a busy machine gives a program no CPU for a while, it gets less GPU time. So one good run in four suffices.
template <typename Good>
bool once_in_four(const std::string& first, const std::string& second, Good good) {
  for (int i = 0; i < 4; ++i) {
    const Cli cli;
    if (good(together(cli, first, second))) return true;
  }
  return false;
}

// When each was also charged for the other's slices, they got 20 and 42 %.
TEST(DaemonUsers, TwoUsersCeilingsHoldSideBySide) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  EXPECT_TRUE(once_in_four("--compute 25%", "--compute 50%", [](const Had& had) {
    return had.first > 23.5 && had.first < 26.5 && had.second > 48 && had.second < 52;
  }));
}

// Before, they got 22 and 78 %.
TEST(DaemonUsers, TwoUsersWeightsDivideTheGpu) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  EXPECT_TRUE(once_in_four("--weight 30", "--weight 70", [](const Had& had) {
    return had.first > 28 && had.first < 32 && had.second > 67 && had.second < 72;
  }));
}

}  // namespace
}  // namespace headgate::e2e
