// Programs in real containers, namespaces and units are tenants of the built daemon. They join through the share's
// directory, the only thing that is mounted. Views show where they run, limits apply, and their end is seen.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "daemon_program.hpp"
#include "engine.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kGiB = 1u << 30;
const std::vector<std::string> kTenant = {"/opt/headgate/bypass_program", "libcuda.so.1"};

std::string alloc(Program& program, std::uint64_t bytes) {
  program.say("alloc " + std::to_string(bytes));
  return program.line();
}

// A daemon, the share alice of 4 GiB, and a directory with the files that its containers mount.
class Node {
 public:
  // `options`: further options of the share; `words`: arguments of the daemon.
  explicit Node(const std::string& options = {}, const std::vector<std::string>& words = {}) : daemon(words) {
    const Said made = daemon.cli().shell("$H share create alice --mem 4GiB " + options);
    EXPECT_EQ(made.status, 0) << made.err;
    const fs::path libraries = SIMULATOR_DIR;
    for (const fs::path& file : {fs::path(BYPASS_PROGRAM), fs::path(HEADGATE_LIMITER), libraries / "libcuda.so.1",
                                 libraries / "libnvidia-ml.so.1"})
      fs::copy_file(file, files_.path() + "/" + file.filename().string());
    // Other users may traverse the directories, and use the simulated devices like real ones.
    ::chmod(files_.path().c_str(), 0755);
    for (const std::string& each : {daemon.cli().directory(), daemon.cli().runtime()}) ::chmod(each.c_str(), 0755);
    [[maybe_unused]] const int opened = std::system(("chmod -R a+rwX '" + simulated() + "'").c_str());
  }

  [[nodiscard]] std::string simulated() const { return daemon.cli().directory() + "/node"; }
  [[nodiscard]] std::string share() const { return daemon.cli().runtime() + "/shares/alice"; }
  [[nodiscard]] const std::string& files() const { return files_.path(); }
  [[nodiscard]] std::vector<Mount> mounts() const {
    return {
        {"/usr", "/usr"}, {files(), "/opt/headgate"}, {simulated(), "/sim", true}, {share(), "/run/headgate/share"}};
  }
  static std::vector<std::string> environment() {
    return {"LD_PRELOAD=/opt/headgate/libheadgate.so", "LD_LIBRARY_PATH=/opt/headgate", "HEADGATE_SIM_DIR=/sim"};
  }
  // Waits for the share's only process and returns it.
  [[nodiscard]] std::optional<snapshot::Process> process() const {
    std::optional<snapshot::Process> found;
    static_cast<void>(eventually([&] {
      for (auto& each : daemon.snapshot().processes)
        if (each.share == "alice") return found = each, true;
      return false;
    }));
    return found;
  }
  [[nodiscard]] std::uint64_t used() const { return daemon.share("alice").devices.at(0).memory_used_bytes; }

  Daemon daemon;

 private:
  Directory files_;
};

// Checks what holds for every tenant, wherever it runs. `tenant` waits for commands; `where` is called after its start.
template <typename Where>
void is_held_and_its_end_seen(const Node& node, Program& tenant, Where where) {
  ASSERT_EQ(tenant.line(), "ready 0") << tenant.errors_so_far();
  const auto process = node.process();
  ASSERT_TRUE(process) << tenant.errors_so_far();
  const std::string place = where();
  EXPECT_TRUE(place.empty() || process->where == place) << process->where << ", expected " << place;
  const Said seen = node.daemon.cli().shell("$H ps");
  EXPECT_TRUE(seen.out.contains(place) && seen.out.contains("alice")) << seen.out << seen.err;
  EXPECT_EQ(alloc(tenant, kGiB), "0");
  EXPECT_EQ(alloc(tenant, 3 * kGiB), "2") << "more than the share has";
  EXPECT_TRUE(eventually([&] { return node.used() >= kGiB; }));
  ASSERT_GT(process->pid, 1u);
  ASSERT_EQ(::kill(static_cast<pid_t>(process->pid), SIGKILL), 0);
  tenant.wait();
  EXPECT_TRUE(eventually([&] { return node.used() == 0; })) << node.used();
  EXPECT_TRUE(eventually([&] { return node.daemon.share("alice").processes == 0; }));
}

class Container : public testing::TestWithParam<const char*> {};

TEST_P(Container, IsHeldAndIdentifiedAndReleasesMemoryWhenKilled) {
  const auto engine = make_engine(GetParam());
  if (const std::string lack = engine->lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const Node node("--user " + std::to_string(engine->user()));
  Program tenant(engine->line(node.mounts(), Node::environment(), kTenant), {});
  is_held_and_its_end_seen(node, tenant, [&] { return engine->where(); });
  EXPECT_EQ(tenant.wait(), 128 + SIGKILL) << tenant.errors();
}

INSTANTIATE_TEST_SUITE_P(Engines, Container,
                         testing::Values("runc", "crun", "podman", "rootless podman", "docker", "containerd"),
                         [](const auto& each) {
                           std::string name = each.param;
                           if (const auto blank = name.find(' '); blank != name.npos) name[blank] = '_';
                           return name;
                         });

// A user that may name a directory to mount may name another user's.
TEST(Containers, OfAnUnadmittedUserAreRefused) {
  const auto engine = make_engine("rootless podman");
  if (const std::string lack = engine->lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const Node node;
  Program tenant(engine->line(node.mounts(), Node::environment(), kTenant), {});
  EXPECT_NE(tenant.line(), "ready 0");
  tenant.close_stdin();
  tenant.wait();
  EXPECT_TRUE(tenant.errors().contains("may not use the share 'alice'"));
}

// As in docs/containers.md: limiter, loader's list and share are mounted, and no environment variable is set.
TEST(Containers, WithTheLoadersListHoldAnyEnvironment) {
  const auto engine = make_engine("podman");
  if (const std::string lack = engine->lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const Node node;
  const std::string folder = node.daemon.cli().directory() + "/limiter";
  const Said put = node.daemon.cli().shell("$H limiter install --at /opt/limiter " + folder);
  ASSERT_EQ(put.status, 0) << put.err;
  auto mounts = node.mounts();
  mounts.push_back({folder, "/opt/limiter"});
  mounts.push_back({folder + "/ld.so.preload", "/etc/ld.so.preload"});
  Program tenant(engine->line(mounts, {"LD_LIBRARY_PATH=/opt/headgate", "HEADGATE_SIM_DIR=/sim"}, kTenant), {});
  is_held_and_its_end_seen(node, tenant, [&] { return engine->where(); });
}

// The directory is mounted, so a new daemon's socket appears in it.
TEST(Containers, OutliveTheDaemonAndFindTheNextOne) {
  const auto engine = make_engine("runc");
  if (const std::string lack = engine->lacks(); !lack.empty()) GTEST_SKIP() << lack;
  Node node;
  const std::string program = kTenant[0] + " " + kTenant[1];
  Program tenant(engine->line(node.mounts(), Node::environment(), {"/bin/sh", "-c", program + "; " + program}), {});
  ASSERT_EQ(tenant.line(), "ready 0") << tenant.errors_so_far();
  const auto before = node.process();
  ASSERT_TRUE(before);
  node.daemon.kill_and_wait();
  EXPECT_EQ(alloc(tenant, kGiB), "0");
  EXPECT_EQ(alloc(tenant, 3 * kGiB), "2") << "more than the share has";
  node.daemon.start();
  const auto adopted = node.process();
  ASSERT_TRUE(adopted);
  EXPECT_EQ(adopted->pid, before->pid);
  EXPECT_EQ(adopted->where, engine->where());
  EXPECT_GE(node.used(), kGiB);
  ASSERT_GT(before->pid, 1u);
  ASSERT_EQ(::kill(static_cast<pid_t>(before->pid), SIGKILL), 0);
  ASSERT_EQ(tenant.line(), "ready 0") << tenant.errors_so_far();
  EXPECT_TRUE(eventually([&] {
    const auto next = node.process();
    return next && next->pid != before->pid && next->where == engine->where();
  }));
  EXPECT_EQ(alloc(tenant, kGiB), "0");
}

TEST(Containers, WithOutsidersAreFrozenByThePolicy) {
  const auto engine = make_engine("runc");
  if (const std::string lack = engine->lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const Directory directory;
  std::ofstream(directory.path() + "/config.toml") << "[audit]\npolicy = \"freeze\"\n";
  const Node node({}, {"--config", directory.path() + "/config.toml"});
  Program rogue(engine->line(node.mounts(), {"LD_LIBRARY_PATH=/opt/headgate", "HEADGATE_SIM_DIR=/sim"}, kTenant), {});
  ASSERT_EQ(rogue.line(), "ready 0") << rogue.errors_so_far();
  const std::string id = engine->where().substr(engine->where().find(' ') + 1);
  EXPECT_TRUE(eventually([&] {
    const std::string events = node.daemon.ask("GET", "/v1/events").body;
    const auto at = events.find("was frozen with its cgroup /headgate-e2e-");
    return at != events.npos && events.substr(at, 120).contains(id);
  })) << node.daemon.ask("GET", "/v1/events").body;
}

// A hand-made container: no engine records where it is.
TEST(Namespaces, MadeByHandHideNoProcess) {
  const Node node;
  if (::geteuid() != 0 || node.daemon.cli().shell("unshare --pid --mount --fork --mount-proc true").status != 0)
    GTEST_SKIP() << "this machine makes no namespaces";
  const std::string inside = "mount -t tmpfs none /run && mkdir -p /run/headgate/share && mount --bind " +
                             node.share() + " /run/headgate/share && LD_PRELOAD=" + node.files() +
                             "/libheadgate.so exec " + node.files() + "/bypass_program libcuda.so.1";
  Program tenant(
      {"/usr/bin/unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", inside},
      {{"LD_LIBRARY_PATH", node.files()}, {"HEADGATE_SIM_DIR", node.simulated()}, {"LD_PRELOAD", ""}});
  is_held_and_its_end_seen(node, tenant, [&] {
    const auto process = node.process();
    EXPECT_EQ(process->pid_in_share, 1u);
    EXPECT_NE(process->pid, 1u);
    return std::string();
  });
}

TEST(Scopes, AreNamedUnderSystemd) {
  if (::access("/run/systemd/system", F_OK) != 0) GTEST_SKIP() << "systemd does not run here";
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes scopes of the system";
  const Node node;
  const std::string unit = "headgate-test-" + std::to_string(::getpid()) + ".scope";
  Program tenant({"/usr/bin/env", "systemd-run", "--scope", "--quiet", "--collect", "--unit=" + unit, "/usr/bin/env",
                  "LD_PRELOAD=" + node.files() + "/libheadgate.so", node.files() + "/bypass_program", "libcuda.so.1"},
                 {{"LD_LIBRARY_PATH", node.files()},
                  {"HEADGATE_SIM_DIR", node.simulated()},
                  {"HEADGATE_SHARE_DIR", node.share()}});
  is_held_and_its_end_seen(node, tenant, [&] { return "unit " + unit; });
}

}  // namespace
}  // namespace headgate::e2e
