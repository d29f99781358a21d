// A container that is given a share as a CDI device is held to it, whatever its environment; each edit of the share's
// CDI file is needed for that.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon_program.hpp"
#include "podman.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// An image with real programs, the C library that they need, and nothing of headgate's.
constexpr const char* kMakeImage = R"sh(
  set -e; mkdir -p "$IMAGE/etc" "$IMAGE/tmp" "$IMAGE/proc" "$IMAGE/sys" "$IMAGE/dev" "$IMAGE/run"
  for link in /bin /sbin /lib /lib64; do
    [ ! -L $link ] || { cp -P $link "$IMAGE$link"; mkdir -p "$IMAGE/usr$link"; }
  done
  put() { mkdir -p "$IMAGE$(dirname "$2")"; [ -e "$IMAGE$2" ] || cp -L "$1" "$IMAGE$2"; }
  libraries() { ldd "$@" | grep -o '/[^ :]* (' | cut -d' ' -f1 | sort -u; }
  programs='/bin/sh /usr/bin/env /usr/bin/sleep /usr/bin/touch /usr/bin/printf'
  for file in $programs $(libraries $programs $TENANT $SIM/libcuda.so.1 $LIMITER); do put $file $file; done
  put $TENANT /usr/bin/tenant)sh";

// Runs in the container: what its programs have of the share, a line each.
constexpr const char* kCheck = R"sh(
  echo "void: $NVIDIA_VISIBLE_DEVICES"
  touch /run/headgate/share/file 2>/dev/null && echo "the share can be written"
  for place in /usr/lib64 /usr/lib/*-linux-gnu; do
    for file in libcuda.so.1 libnvidia-ml.so.1; do [ -s $place/$file ] || echo "no $place/$file"; done
  done
  env -i /usr/bin/tenant --accounting; echo "nvml: $?"
  printf 'info\nalloc 1073741824\nalloc 3221225472\n' |
    env -i HEADGATE_LOG=warn /usr/bin/tenant libcuda.so.1)sh";

constexpr const char* kHeld = "void: void\nnvml: 0\nready 0\n";

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct Outcome {
  int status = -1;
  std::string out, err;
};

Outcome outcome_of(const std::vector<std::string>& words) {
  Program program(words, {{"LD_PRELOAD", ""}});
  program.close_stdin();
  Outcome outcome;
  for (std::string line = program.line(); !line.empty(); line = program.line()) outcome.out += line + "\n";
  outcome.status = program.wait();
  outcome.err = program.errors();
  return outcome;
}

// The daemon with its libraries where every user reaches them, as those of an installation: a CDI file names them.
class Installation {
 public:
  Installation() {
    const char* const other = std::getenv(kVariable);
    if (other != nullptr) other_ = other;
    const fs::path root = directory_.path();
    fs::create_directories(root / "bin");
    fs::create_directories(root / "lib/sim");
    fs::copy_file(other_.empty() ? HEADGATE_DAEMON : other_, root / "bin/headgated");
    fs::copy_file(HEADGATE_LIMITER, root / "lib/libheadgate.so");
    for (const char* each : {"libcuda.so.1", "libnvidia-ml.so.1"})
      fs::copy_file(fs::path(SIMULATOR_DIR) / each, root / "lib/sim" / each);
    for (const char* each : {"", "bin", "lib", "lib/sim"}) ::chmod((root / each).c_str(), 0755);
    ::setenv(kVariable, (root / "bin/headgated").c_str(), 1);
  }
  ~Installation() { other_.empty() ? ::unsetenv(kVariable) : ::setenv(kVariable, other_.c_str(), 1); }
  Installation(const Installation&) = delete;
  Installation& operator=(const Installation&) = delete;

 private:
  static constexpr const char* kVariable = "HEADGATE_TEST_DAEMON";  // which daemon tests start (daemon_program.cpp)
  std::string other_;
  Directory directory_;
};

// A daemon that keeps CDI files, the share alice of 2 GiB, a podman that sees them, and an image.
class CdiNode {
 public:
  explicit CdiNode(bool rootless) : engine(rootless), daemon({"--cdi-dir", directory.path()}) {
    for (const std::string& each : {directory.path(), daemon.cli().directory(), daemon.cli().runtime()})
      ::chmod(each.c_str(), 0755);
    const Said said = daemon.cli().shell("chmod -R a+rwX $D/node; export TENANT=" BYPASS_PROGRAM
                                         " LIMITER=" HEADGATE_LIMITER " SIM=" SIMULATOR_DIR " IMAGE=" +
                                         image() + "; " + kMakeImage);
    EXPECT_EQ(said.status, 0) << said.err;
    engine.give_files();
    const Said made = daemon.cli().shell("$H share create alice --mem 2GiB --user " + std::to_string(engine.user()));
    EXPECT_EQ(made.status, 0) << made.err;
  }

  [[nodiscard]] std::string image() const { return engine.folder() + "/rootfs"; }
  [[nodiscard]] fs::path file() const { return fs::path(directory.path()) / "headgate.io-share_alice.json"; }
  [[nodiscard]] Outcome podman(const std::vector<std::string>& words) const {
    return outcome_of(engine.podman(words, directory.path()));
  }
  // The words of `podman run` for a container in the share.
  [[nodiscard]] std::vector<std::string> run(const std::vector<std::string>& options,
                                             const std::vector<std::string>& command) const {
    std::vector<std::string> words = {"run"};
    for (const auto& more : {engine.run_options(),
                             {"--device", "headgate.io/share=alice", "--env", "NVIDIA_VISIBLE_DEVICES=all"},
                             options,
                             {"--rootfs", image()},
                             command})
      words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // What kCheck finds in a container of its own.
  [[nodiscard]] Outcome check() const { return podman(run({"--rm"}, {"/bin/sh", "-c", kCheck})); }

  const Installation installation;
  Podman engine;
  const Directory directory;
  Daemon daemon;
};

constexpr const char* kRefused = "share alice: 3221225472 bytes refused on GPU 0";

bool is_held(const Outcome& found) {
  return found.out.starts_with(kHeld) && found.out.ends_with(" of 2147483648\n0\n2\n") && found.err.contains(kRefused);
}

TEST(CdiDevice, HoldsAPodmanContainerAndNeedsEachOfItsEdits) {
  const CdiNode node(false);
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

// One container, which is entered again, whose root cannot be written.
TEST(CdiDevice, HoldsWhatExecStartsInAReadOnlyContainer) {
  const CdiNode node(false);
  if (const std::string lack = node.engine.lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const Outcome started =
      node.podman(node.run({"--detach", "--read-only", "--name=tenant"}, {"/usr/bin/sleep", "600"}));
  ASSERT_EQ(started.status, 0) << started.err;
  const Outcome held = node.podman({"exec", "--env=NVIDIA_VISIBLE_DEVICES=void", "tenant", "/bin/sh", "-c", kCheck});
  EXPECT_TRUE(is_held(held)) << held.out << held.err;
  const Outcome written = node.podman({"exec", "tenant", "/usr/bin/touch", "/etc/file"});
  EXPECT_NE(written.status, 0) << "its root is for reading only";
}

TEST(CdiDevice, HoldsAContainerOfAUserWithoutRoot) {
  const CdiNode node(true);
  if (const std::string lack = node.engine.lacks(); !lack.empty()) GTEST_SKIP() << lack;
  const Outcome held = node.check();
  EXPECT_TRUE(is_held(held)) << held.out << held.err;
}

TEST(CdiDevice, IsGoneWithItsShare) {
  const CdiNode node(false);
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
