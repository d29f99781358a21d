// headgate-oci as the runtime of real engines. A container that asks for a share is in it, or is refused with a
// message. All else behaves as with runc and crun.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "share_node.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string content_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A hand-written bundle, in a directory with a name that needs quoting, and headgate-oci in front of a runtime.
class Bundle {
 public:
  Bundle(const ShareNode& node, const std::string& runtime) : node_(node), runtime_(runtime) {
    fs::create_directories(path());
    config = {{"ociVersion", "1.0.2"},
              {"root", {{"path", node.image()}}},
              {"process",
               {{"terminal", false},
                {"user", {{"uid", 0}, {"gid", 0}}},
                {"args", {"/bin/sh", "-c", kCheckShare}},
                {"env", {"PATH=/usr/bin:/bin", "NVIDIA_VISIBLE_DEVICES=all"}},
                {"cwd", "/"}}},
              {"mounts",
               {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}},
                {{"destination", "/dev"}, {"type", "tmpfs"}, {"source", "tmpfs"}}}},
              {"annotations", {{"headgate.io/share", "alice"}, {"other", "kept"}}},
              {"linux",
               {{"cgroupsPath", "/" + id_},
                {"namespaces", {{{"type", "pid"}}, {{"type", "mount"}}, {{"type", "ipc"}}, {{"type", "network"}}}}}}};
    settings("");
  }
  ~Bundle() { static_cast<void>(run({"delete", "--force", id_})); }
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  [[nodiscard]] fs::path path() const { return fs::path(directory_.path()) / "a b'c\"$d"; }
  [[nodiscard]] fs::path log() const { return path() / "log.json"; }
  void settings(const std::string& more) const {
    std::ofstream(directory_.path() + "/config.toml")
        << "[cdi]\ndir = '" << node_.directory.path() << "'\n[runtime]\nprogram = '" << runtime_ << "'\n"
        << more;
  }
  // Runs headgate-oci with these arguments.
  [[nodiscard]] Outcome run(const std::vector<std::string>& words) const {
    std::vector<std::string> all = {
        HEADGATE_OCI, "--headgate-config", configuration(), "--root", directory_.path() + "/state",
        "--log",      log().string(),      "--log-format",  "json"};
    all.insert(all.end(), words.begin(), words.end());
    return outcome_of(apart(all));
  }
  [[nodiscard]] Outcome run_container() const {
    std::ofstream(path() / "config.json") << config.dump();
    return run({"run", "--bundle", path().string(), id_});
  }
  // Runs the container with another program than headgate-oci.
  [[nodiscard]] Outcome run_container_with(const std::string& program) const {
    std::ofstream(path() / "config.json") << config.dump();
    return outcome_of(apart({program, "--root", directory_.path() + "/state", "--log", log().string(), "run",
                             "--bundle", path().string(), id_}));
  }
  void mount(const std::string& from, const std::string& to) {
    config["mounts"].push_back({{"destination", to}, {"type", "bind"}, {"source", from}, {"options", {"rbind"}}});
  }
  [[nodiscard]] std::string configuration() const { return directory_.path() + "/config.toml"; }
  [[nodiscard]] const std::string& id() const { return id_; }

  Json config;

 private:
  // crun refuses hybrid hosts. Without the version 2 mount it sees a version 1 host.
  static std::vector<std::string> apart(const std::vector<std::string>& words) {
    std::vector<std::string> all = {
        "/usr/bin/unshare", "-m", "/bin/sh", "-c", "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\"", "sh"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  const ShareNode& node_;
  const std::string runtime_;
  const Directory directory_{"/tmp"};
  const std::string id_ = new_container_id();
};

const std::vector<std::string> kRuntimes = {"/usr/sbin/runc", "/usr/bin/crun"};

class OciRuntime : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (::access(GetParam().c_str(), X_OK) != 0) GTEST_SKIP() << "there is no " << GetParam();
    if (::geteuid() != 0 || ::access("/sys/fs/cgroup", W_OK) != 0) GTEST_SKIP() << "only root may run it by itself";
  }
};
INSTANTIATE_TEST_SUITE_P(All, OciRuntime, ::testing::ValuesIn(kRuntimes),
                         [](const auto& runtime) { return fs::path(runtime.param).filename().string(); });

TEST_P(OciRuntime, HoldsAContainerThatNamesAShare) {
  const ShareNode node(false);
  const Bundle bundle(node, GetParam());
  const Outcome held = bundle.run_container();
  EXPECT_TRUE(is_held(held)) << held.out << held.err << content_of(bundle.log());
  const Json after = Json::parse(content_of(bundle.path() / "config.json"));
  EXPECT_EQ(after["annotations"], bundle.config["annotations"]) << "what is not edited is as it was";
  EXPECT_EQ(bundle.run({"state", bundle.id()}).status, 1) << "it is gone, as runc says, not we";
}

TEST_P(OciRuntime, LeavesAContainerWithoutAShareAlone) {
  const ShareNode node(false);
  Bundle bundle(node, GetParam());
  bundle.config.erase("annotations");
  bundle.config["process"]["args"] = {"/bin/sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES"};
  const Outcome ran = bundle.run_container();
  EXPECT_EQ(ran.out, "all\n") << ran.err;
  EXPECT_EQ(content_of(bundle.path() / "config.json"), bundle.config.dump());
}

TEST_P(OciRuntime, RefusesWithMessagesThatEnginesRead) {
  const ShareNode node(false);
  Bundle bundle(node, GetParam());
  bundle.config["annotations"]["headgate.io/share"] = "bob";
  const Outcome refused = bundle.run_container();
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.out, "");
  const std::string words = "headgate: there is no share 'bob' for containers: " + node.directory.path() +
                            "/headgate.io-share_bob.json is missing ('headgate share ls' names the shares, "
                            "'headgate share show bob' says what is wrong with one)";
  EXPECT_EQ(refused.err, words + "\n");
  const Json line = Json::parse(content_of(bundle.log()));
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["msg"], words);
  EXPECT_EQ(content_of(bundle.path() / "config.json"), bundle.config.dump());
  EXPECT_EQ(std::distance(fs::directory_iterator(bundle.path()), {}), 2) << "config.json and the log";
  EXPECT_NE(bundle.run({"state", bundle.id()}).status, 0) << "nothing is half made";
}

// Whatever the daemon says of the share: one sentence, and nothing is half made. Without a daemon the share holds.
TEST_P(OciRuntime, AsksTheDaemonWhetherTheShareAdmitsTheContainer) {
  ShareNode node(false);
  Bundle bundle(node, GetParam());
  const auto headgate = [&](const std::string& words) {
    const Said said = node.daemon.cli().shell("$H " + words);
    ASSERT_EQ(said.status, 0) << said.err;
  };
  const auto refusal = [&] {
    fs::remove(bundle.log());
    const Outcome refused = bundle.run_container();
    EXPECT_EQ(refused.status, 1);
    EXPECT_EQ(refused.out, "");
    EXPECT_EQ(content_of(bundle.path() / "config.json"), bundle.config.dump());
    EXPECT_EQ(std::distance(fs::directory_iterator(bundle.path()), {}), 2) << "config.json and the log";
    EXPECT_NE(bundle.run({"state", bundle.id()}).status, 0) << "nothing is half made";
    return refused.err;
  };
  headgate("share pause alice");
  EXPECT_EQ(refusal(), "headgate: the share 'alice' is paused (headgate share resume alice)\n");
  headgate("share resume alice");
  headgate("share drain alice");
  EXPECT_EQ(refusal(), "headgate: the share 'alice' is being drained (headgate share resume alice)\n");
  headgate("share resume alice");
  bundle.config["process"]["user"] = {{"uid", 4711}, {"gid", 4711}};
  EXPECT_TRUE(refusal().starts_with("headgate: uid 4711 may not use the share 'alice' (its owner, root, lets"));
  bundle.config["process"]["user"] = {{"uid", 0}, {"gid", 0}};
  node.daemon.signal(SIGSTOP);
  EXPECT_TRUE(refusal().contains("/control/headgate.sock does not answer within 2 s, so the share 'alice'"));
  node.daemon.signal(SIGCONT);
  EXPECT_TRUE(is_held(bundle.run_container()));
  node.daemon.kill_and_wait();
  bundle.config["process"]["args"] = {"/bin/sh", "-c", "echo started"};
  const Outcome started = bundle.run_container();
  EXPECT_EQ(started.out, "started\n") << started.err;
}

// Containers come and go while the daemon is killed at random: each is held, or is given nothing while no daemon is
// there, as the share's fail policy says; and nothing of them is left.
TEST_P(OciRuntime, HoldsContainersWhileTheDaemonIsKilled) {
  const int containers = std::getenv("HEADGATE_TEST_LONG") != nullptr ? 500 : 8;
  ShareNode node(false);
  Bundle bundle(node, GetParam());
  const auto mounts = [] { return std::ranges::count(content_of("/proc/self/mountinfo"), '\n'); };
  const auto mounts_before = mounts();
  std::atomic<bool> done = false;
  ASSERT_EQ(
      node.daemon.cli().shell("$H share rm alice && $H share create alice --mem 2GiB --fail-policy closed").status, 0);
  std::string unheld;
  int held = 0;
  std::thread engine([&] {
    for (int i = 0; i < containers && unheld.empty(); ++i) {
      const Outcome ran = bundle.run_container();
      held += is_held(ran);
      // Its last line is what became of 3 GiB.
      if (!ran.out.starts_with("void: void\n") || ran.out.ends_with("\n0\n"))
        unheld = "container " + std::to_string(i) + ": " + ran.out + ran.err + content_of(bundle.log());
    }
    done = true;
  });
  std::minstd_rand random(20261126);
  int kills = 0;
  for (; !done; ++kills) {
    rest_ms(static_cast<int>(random() % 400));  // at which moment it meets a container is chance
    node.daemon.kill_and_wait();
    rest_ms(static_cast<int>(random() % 100));
    node.daemon.start();
  }
  engine.join();
  EXPECT_EQ(unheld, "");
  EXPECT_GT(kills, 0);
  EXPECT_GT(held, 0);
  EXPECT_TRUE(eventually([&] {
    const auto share = node.daemon.share("alice");
    return share.processes == 0 && share.devices.size() == 1 && share.devices[0].memory_used_bytes == 0;
  })) << "bytes of containers that have ended";
  EXPECT_EQ(mounts(), mounts_before);
  EXPECT_EQ(node.daemon.cli().shell("$H share rm alice").status, 0);
  EXPECT_TRUE(fs::is_empty(node.directory.path())) << "the share's file";
  EXPECT_EQ(std::distance(fs::directory_iterator(bundle.path()), {}), 2) << "config.json and the log";
}

TEST_P(OciRuntime, AddsToTheImagesOwnPreloadList) {
  const ShareNode node(false);
  Bundle bundle(node, GetParam());
  fs::copy_file(HEADGATE_LIMITER, node.image() + "/usr/lib/own.so");
  std::ofstream(node.image() + "/etc/ld.so.preload") << "# own\n/usr/lib/own.so\n";
  bundle.config["process"]["args"] = {"/bin/sh", "-c", "while read line; do echo \"$line\"; done </etc/ld.so.preload"};
  const Outcome ran = bundle.run_container();
  EXPECT_EQ(ran.out, "# own\n/usr/lib/own.so\n/run/headgate/libheadgate.so\n") << ran.err << content_of(bundle.log());
}

TEST_P(OciRuntime, TreatsAnUnholdableImageAsConfigured) {
  const ShareNode node(false);
  Bundle bundle(node, GetParam());
  // Replaces the image's C library with one that claims an older version.
  fs::path library;
  for (const auto& each : fs::recursive_directory_iterator(node.image()))
    if (each.path().filename() == "libc.so.6") library = each.path();
  ASSERT_FALSE(library.empty());
  const std::string own = content_of(library), says = "release version 2.";
  std::string old = own;
  ASSERT_NE(old.find(says), std::string::npos);
  old.replace(old.find(says) + says.size(), 2, "12");
  std::ofstream(library) << old;
  const Outcome refused = bundle.run_container();
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(refused.err.contains("cannot hold this image: its glibc is 2.12, and the limiter needs 2.17"))
      << refused.err;
  bundle.settings("image = 'mps'\n");
  EXPECT_TRUE(bundle.run_container().err.contains("and the share has no MPS"));
  bundle.settings("image = 'warn'\n");
  bundle.config["process"]["args"] = {"/bin/sh", "-c", "echo started; [ -s /etc/ld.so.preload ] || echo no list"};
  const Outcome started = bundle.run_container();
  EXPECT_EQ(started.out, "started\nno list\n") << started.err;
  EXPECT_TRUE(started.err.contains("it starts unlimited")) << started.err;
}

// Runs our hook as a createRuntime hook of the runtime itself, without headgate-oci as the runtime.
TEST_P(OciRuntime, RunsOurHookThatMountsTheShare) {
  const ShareNode node(false);
  Bundle bundle(node, GetParam());
  const auto hooked = [&] {
    bundle.config["hooks"]["createRuntime"] = {
        {{"path", HEADGATE_OCI}, {"args", {"headgate-oci", "hook", "--headgate-config", bundle.configuration()}}}};
    return bundle.run_container_with(GetParam());
  };
  // The hook does not mount the driver; NVIDIA's hook would.
  const Json share = Json::parse(content_of(node.file()));
  for (const Json& mount : share["devices"][0]["containerEdits"]["mounts"])
    if (const auto to = mount["containerPath"].get<std::string>(); to.contains("lib") && !to.contains("libheadgate"))
      bundle.mount(mount["hostPath"], to);
  bundle.mount(node.daemon.cli().directory() + "/node", "/run/headgate/simulated-node");
  bundle.config["process"]["env"].push_back("NVIDIA_VISIBLE_DEVICES=void");
  const Outcome held = hooked();
  EXPECT_TRUE(is_held(held)) << held.out << held.err << content_of(bundle.log());
  bundle.config["annotations"]["headgate.io/share"] = "bob";
  const Outcome refused = hooked();
  EXPECT_NE(refused.status, 0);
  EXPECT_EQ(refused.out, "");
  const bool shows_words = GetParam().ends_with("runc");  // crun only says that a hook failed
  EXPECT_TRUE(!shows_words || refused.err.contains("there is no share 'bob' for containers")) << refused.err;
}

// Docker 20.10, which supports neither CDI nor annotations on the command line, so --gpus names the share.
class DockerWithOurs : public ::testing::Test {
 protected:
  // Runs kCheckShare in a container with these options of `docker run`.
  [[nodiscard]] Outcome run(const ShareNode& node, const std::vector<std::string>& options,
                            const std::string& runtime) const {
    const auto docker = make_docker({.first_on_path = programs_.path(),
                                     .runtime = runtime,
                                     .cdi_directory = node.directory.path(),
                                     .image = node.image(),
                                     .options = options});
    return outcome_of(docker->line({}, {"NVIDIA_VISIBLE_DEVICES=all"}, {"/bin/sh", "-c", kCheckShare}));
  }
  void SetUp() override {
    if (const std::string lack = make_docker()->lacks(); !lack.empty()) GTEST_SKIP() << lack;
  }
  // This file makes dockerd believe that it has NVIDIA's driver.
  [[nodiscard]] fs::path hook() const { return fs::path(programs_.path()) / "nvidia-container-runtime-hook"; }

  const Directory programs_{"/tmp"};
};

TEST_F(DockerWithOurs, HoldsByItsRuntimeOrReportsWhyNot) {
  const ShareNode node(false);
  std::ofstream(hook()) << "#!/bin/sh\necho no hook is left >&2; exit 1\n";
  fs::permissions(hook(), fs::perms::owner_all);
  const Outcome held = run(node, {"--runtime=headgate", "--gpus=device=headgate.io/share=alice"}, HEADGATE_OCI);
  EXPECT_TRUE(is_held(held)) << held.out << held.err;
  const Outcome refused = run(node, {"--runtime=headgate", "--gpus=device=headgate.io/share=bob"}, HEADGATE_OCI);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(refused.err.contains("headgate: there is no share 'bob' for containers")) << refused.err;
}

TEST_F(DockerWithOurs, HoldsByItsHookOrReportsWhyNot) {
  const ShareNode node(false);
  fs::create_symlink(HEADGATE_OCI, hook());
  const Outcome refused = run(node, {"--gpus=device=headgate.io/share=bob"}, {});
  EXPECT_EQ(refused.out, "");
  EXPECT_TRUE(refused.err.contains("headgate: there is no share 'bob' for containers")) << refused.err;
  const Outcome entered = run(node, {"--gpus=device=headgate.io/share=alice"}, {});
  // The engine sets this variable; a hook cannot change it.
  EXPECT_TRUE(entered.out.starts_with("void: headgate.io/share=alice\n")) << entered.out;
  EXPECT_TRUE(entered.out.ends_with(" of 2147483648\n0\n2\n")) << entered.out << entered.err;
}

// As with podman (cdi_test.cpp), the control daemon is started by the program's registration, and ends with the last.
TEST_F(DockerWithOurs, MakesAContainersProgramAClientOfMps) {
  const ShareNode node(false);
  std::ofstream(hook()) << "#!/bin/sh\nexit 1\n";
  fs::permissions(hook(), fs::perms::owner_all);
  const auto& cli = node.daemon.cli();
  const Said made = cli.shell("$H share create m --isolation=mps --compute 30% --mem 2GiB");
  ASSERT_EQ(made.status, 0) << made.err;
  const auto groups = [&] { return Json::parse(node.daemon.ask("GET", "/v1/mps").body); };
  const auto has_clients = [&](std::size_t count) {
    return eventually([&] {
      const Json all = groups();
      return all.size() == 1 && all[0]["clients"].size() == count;
    });
  };
  const Directory shared("/dev/shm");
  const std::string load = "(echo alloc 1048576; exec /usr/bin/sleep 600) | /usr/bin/tenant libcuda.so.1";
  const auto docker = make_docker({.first_on_path = programs_.path(),
                                   .runtime = HEADGATE_OCI,
                                   .cdi_directory = node.directory.path(),
                                   .image = node.image(),
                                   .options = {"--runtime=headgate", "--gpus=device=headgate.io/share=m"}});
  const auto line = docker->line({}, {}, {"/bin/sh", "-c", "[ -d " + shared.path() + " ] && echo shared; " + load});
  Program client(line, {{"LD_PRELOAD", ""}});
  EXPECT_EQ(client.line(), "shared") << "the server is a process of the host, and meets its clients in /dev/shm";
  EXPECT_TRUE(eventually([&] { return node.daemon.share("m").level == "mps"; })) << client.errors_so_far();
  EXPECT_EQ(node.daemon.share("m").devices.at(0).sm_ratio, 0.3);
  EXPECT_TRUE(has_clients(1)) << groups();
  const auto in_docker = [&](std::vector<std::string> words) {
    words.insert(words.begin(), line.begin(), std::ranges::find(line, "run"));
    return outcome_of(words);
  };
  const std::string pipe = cli.runtime() + "/mps/" + groups()[0]["uuid"].get<std::string>() + "/" +
                           std::to_string(groups()[0]["owner_uid"].get<int>()) + "/pipe";
  const Outcome entered =
      in_docker({"exec", "--detach", "--env=CUDA_MPS_PIPE_DIRECTORY=" + pipe, "tenant", "/bin/sh", "-c", load});
  EXPECT_EQ(entered.status, 0) << entered.err;
  EXPECT_TRUE(has_clients(2)) << groups();
  EXPECT_EQ(in_docker({"rm", "--force", "tenant"}).status, 0);
  EXPECT_TRUE(eventually([&] { return groups().empty(); })) << "the control daemon goes with the last tenant";
}

// containerd's BinaryName, by ctr; it tells headgate-oci nothing of a configuration, so the one with the share's place
// comes from a script of that name.
TEST(ContainerdWithOurs, HoldsByItsRuntimeOrReportsWhyNot) {
  if (const std::string lack = make_containerd()->lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const ShareNode node(false);
  const Directory folder("/tmp");
  std::ofstream(folder.path() + "/config.toml") << "[cdi]\ndir = '" << node.directory.path() << "'\n";
  const std::string runtime = folder.path() + "/runtime";
  std::ofstream(runtime) << "#!/bin/sh\nexec " HEADGATE_OCI " --headgate-config " << folder.path()
                         << "/config.toml \"$@\"\n";
  fs::permissions(runtime, fs::perms::owner_all);
  const auto run = [&](const std::string& share) {
    const auto containerd = make_containerd(
        {.runtime = runtime, .image = node.image(), .options = {"--annotation", "headgate.io/share=" + share}});
    return outcome_of(containerd->line({}, {"NVIDIA_VISIBLE_DEVICES=all"}, {"/bin/sh", "-c", kCheckShare}));
  };
  Outcome held = run("alice");
  // ctr closes the pipe when the program ends, and may drop its last line: an output that stops short says nothing.
  for (int again = 0; again < 3 && std::ranges::count(held.out, '\n') < 6; ++again) held = run("alice");
  EXPECT_TRUE(is_held(held)) << held.out << held.err;
  const Outcome refused = run("bob");
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(refused.err.contains("there is no share 'bob' for containers")) << refused.err;
}

// podman shows what is on stderr, and starts containers again by our name.
TEST(PodmanWithOurRuntime, HoldsByAnnotationOrReportsWhyNot) {
  const ShareNode node(false);
  if (const std::string lack = node.engine.lacks(); !lack.empty()) GTEST_SKIP() << lack;
  std::ofstream(node.engine.folder() + "/config.toml") << "[cdi]\ndir = '" << node.directory.path() << "'\n";
  const auto run = [&](const std::string& share, const std::vector<std::string>& command) {
    std::vector<std::string> words = {"--runtime", HEADGATE_OCI, "--runtime-flag",
                                      "headgate-config=" + node.engine.folder() + "/config.toml"};
    const auto rest = node.run_image({"--rm", "--annotation", "headgate.io/share=" + share}, command);
    words.insert(words.end(), rest.begin(), rest.end());
    return node.podman(words);
  };
  const Outcome held = run("alice", {"/bin/sh", "-c", kCheckShare});
  EXPECT_TRUE(is_held(held)) << held.out << held.err;
  const Outcome refused = run("bob", {"/bin/sh", "-c", "echo started"});
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(refused.status, 126);
  EXPECT_TRUE(refused.err.contains("there is no share 'bob' for containers")) << refused.err;
}

}  // namespace
}  // namespace headgate::e2e
