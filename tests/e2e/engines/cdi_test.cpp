// A container that gets a share as a CDI device is limited by it, whatever its environment. Each edit of the share's
// CDI file is necessary.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "share_node.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The path of a control daemon's socket has room for 107 bytes, and TMPDIR may be long.
[[maybe_unused]] const bool kShortCdiPaths = ::setenv("TMPDIR", "/tmp", 1) == 0;

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(CdiDevice, HoldsAPodmanContainerAndNeedsEachOfItsEdits) {
  const ShareNode node(false);
  if (const std::string lack = node.engine.lacks(); !lack.empty()) GTEST_SKIP() << lack;
  struct stat facts{};
  ASSERT_EQ(::stat(node.file().c_str(), &facts), 0) << "it is there as soon as the share is";
  EXPECT_EQ(facts.st_mode & 07777, 0644u);
  const Outcome held = node.check();
  ASSERT_TRUE(is_held(held)) << held.out << held.err;

  const Json whole = Json::parse(read_file(node.file()));
  std::size_t edits = 0;
  for (const char* list : {"env", "mounts"}) {
    const auto count = whole["devices"][0]["containerEdits"][list].size();
    for (std::size_t i = 0; i < count; ++i, ++edits) {
      Json without = whole;
      without["devices"][0]["containerEdits"][list].erase(i);
      std::ofstream(node.file()) << without.dump();
      const Outcome found = node.check();
      EXPECT_FALSE(is_held(found)) << "held without " << whole["devices"][0]["containerEdits"][list][i] << "\n"
                                   << found.out;
    }
  }
  EXPECT_GE(edits, 9u);
  std::size_t all = 0;
  for (const auto& [key, value] : whole["devices"][0]["containerEdits"].items()) all += value.size();
  EXPECT_EQ(all, edits) << "edits of another kind are not tried";
}

// Commands are executed in one running container with a read-only root.
TEST(CdiDevice, HoldsWhatExecStartsInAReadOnlyContainer) {
  const ShareNode node(false);
  if (const std::string lack = node.engine.lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const Outcome started =
      node.podman(node.run({"--detach", "--read-only", "--name=tenant"}, {"/usr/bin/sleep", "600"}));
  ASSERT_EQ(started.status, 0) << started.err;
  const Outcome held =
      node.podman({"exec", "--env=NVIDIA_VISIBLE_DEVICES=void", "tenant", "/bin/sh", "-c", kCheckShare});
  EXPECT_TRUE(is_held(held)) << held.out << held.err;
  const Outcome written = node.podman({"exec", "tenant", "/usr/bin/touch", "/etc/file"});
  EXPECT_NE(written.status, 0) << "its root is for reading only";
}

// As podman-restart.service does it: after a boot /run is empty, and the daemon comes before the engines.
TEST(CdiDevice, HoldsAContainerThatIsStartedAgainAfterAReboot) {
  ShareNode node(false);
  if (const std::string lack = node.engine.lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const Outcome started =
      node.podman(node.run({"--detach", "--restart=always", "--name=tenant"}, {"/usr/bin/sleep", "600"}));
  ASSERT_EQ(started.status, 0) << started.err;
  const auto check = [&] {
    return node.podman({"exec", "--env=NVIDIA_VISIBLE_DEVICES=void", "tenant", "/bin/sh", "-c", kCheckShare});
  };
  const Outcome before = check();
  EXPECT_TRUE(is_held(before)) << before.out << before.err;
  EXPECT_EQ(node.podman({"stop", "--time=0", "tenant"}).status, 0);
  node.daemon.kill_and_wait();
  for (const std::string& each : {node.directory.path(), node.daemon.cli().runtime() + "/shares"})
    for (const auto& entry : fs::directory_iterator(each)) fs::remove_all(entry);
  node.daemon.start();
  EXPECT_TRUE(fs::exists(node.file())) << "as soon as it is ready";
  const Outcome again = node.podman({"start", "--all", "--filter", "restart-policy=always"});
  EXPECT_EQ(again.status, 0) << again.err;
  const Outcome after = check();
  EXPECT_TRUE(is_held(after)) << after.out << after.err;
}

TEST(CdiDevice, HoldsAContainerOfAUserWithoutRoot) {
  const ShareNode node(true);
  if (const std::string lack = node.engine.lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const Outcome held = node.check();
  EXPECT_TRUE(is_held(held)) << held.out << held.err;
}

// No engine asks headgated for a control daemon: its program's registration starts it, before it calls the driver.
TEST(CdiDevice, MakesAContainersProgramAClientOfMps) {
  const ShareNode node(false);
  if (const std::string lack = node.engine.lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const auto& cli = node.daemon.cli();
  const Said made = cli.shell("$H share create m --isolation=mps --compute 30% --mem 2GiB");
  ASSERT_EQ(made.status, 0) << made.err;
  const auto groups = [&] { return Json::parse(node.daemon.ask("GET", "/v1/mps").body); };
  EXPECT_TRUE(groups().empty()) << "an idle share has no control daemon";
  const Outcome started = node.podman(node.run_image(
      {"--detach", "--name=client", "--device=headgate.io/share=m"},
      {"/bin/sh", "-c", "(echo alloc 1048576; exec /usr/bin/sleep 600) | /usr/bin/tenant libcuda.so.1"}));
  ASSERT_EQ(started.status, 0) << started.err;
  EXPECT_TRUE(eventually([&] { return node.daemon.share("m").level == "mps"; })) << groups();
  EXPECT_EQ(node.daemon.share("m").devices.at(0).sm_ratio, 0.3);
  const auto has_clients = [&](std::size_t count) {
    return eventually([&] {
      const Json all = groups();
      return all.size() == 1 && all[0]["clients"].size() == count;
    });
  };
  EXPECT_TRUE(has_clients(1)) << groups();
  // podman gives a program of `exec` the variables of the container's own configuration, not the CDI file's.
  const std::string pipe = cli.runtime() + "/mps/" + groups()[0]["uuid"].get<std::string>() + "/" +
                           std::to_string(groups()[0]["owner_uid"].get<int>()) + "/pipe";
  const Outcome entered =
      node.podman({"exec", "--detach", "--env=CUDA_MPS_PIPE_DIRECTORY=" + pipe, "client", "/bin/sh", "-c",
                   "(echo alloc 1048576; exec /usr/bin/sleep 600) | /usr/bin/tenant libcuda.so.1"});
  ASSERT_EQ(entered.status, 0) << entered.err;
  EXPECT_TRUE(has_clients(2)) << groups();
  EXPECT_EQ(node.podman({"rm", "--force", "--time=0", "client"}).status, 0);
  EXPECT_TRUE(eventually([&] { return groups().empty(); })) << "the control daemon goes with the last tenant";
}

TEST(CdiDevice, IsGoneWithItsShare) {
  const ShareNode node(false);
  if (const std::string lack = node.engine.lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const auto& cli = node.daemon.cli();
  EXPECT_TRUE(fs::exists(node.file()));
  EXPECT_TRUE(cli.shell("$H share show alice").out.contains("\n  podman run --device headgate.io/share=alice IMAGE\n"));
  const Said removed = cli.shell("$H share rm alice && ls -A " + node.directory.path());
  EXPECT_EQ(removed.status, 0) << removed.err;
  EXPECT_EQ(removed.out, "") << "nothing is left as soon as it answers";
  const Outcome refused = node.check();
  EXPECT_EQ(refused.status, 126);
  EXPECT_TRUE(refused.err.contains("unresolvable CDI devices headgate.io/share=alice")) << refused.err;
  EXPECT_EQ(cli.shell("$H run --mem 1GiB -- ls " + node.directory.path()).out.find("headgate.io-share_"), 0u)
      << "a run's share has one too";
  EXPECT_EQ(cli.shell("$H share create short --ttl 1s").status, 0);
  EXPECT_TRUE(eventually([&] { return fs::is_empty(node.directory.path()); })) << "of what ended by itself";
}

}  // namespace
}  // namespace headgate::e2e
