#include "share_node.hpp"

#include <sys/stat.h>

#include <cstdlib>

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;

// An image with real programs and their C library, and nothing of headgate.
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

constexpr const char* kHeldShare = "void: void\nnvml: 0\nready 0\n";
constexpr const char* kRefusedBytes = "share alice: 3221225472 bytes refused on GPU 0";
constexpr const char* kDaemonVariable = "HEADGATE_TEST_DAEMON";  // the daemon that tests start (daemon_program.cpp)

}  // namespace

const char* const kCheckShare = R"sh(
  echo "void: $NVIDIA_VISIBLE_DEVICES"
  touch /run/headgate/share/file 2>/dev/null && echo "the share can be written"
  for place in /usr/lib64 /usr/lib/*-linux-gnu; do
    for file in libcuda.so.1 libnvidia-ml.so.1; do [ -s $place/$file ] || echo "no $place/$file"; done
  done
  env -i /usr/bin/tenant --accounting; echo "nvml: $?"
  printf 'info\nalloc 1073741824\nalloc 3221225472\n' |
    env -i HEADGATE_LOG=warn /usr/bin/tenant libcuda.so.1)sh";

bool is_held(const Outcome& found) {
  return found.out.starts_with(kHeldShare) && found.out.ends_with(" of 2147483648\n0\n2\n") &&
         found.err.contains(kRefusedBytes);
}

Outcome outcome_of(const std::vector<std::string>& words) {
  Program program(words, {{"LD_PRELOAD", ""}});
  program.close_stdin();
  Outcome outcome;
  for (std::string line = program.line(); !line.empty(); line = program.line()) outcome.out += line + "\n";
  outcome.status = program.wait();
  outcome.err = program.errors();
  return outcome;
}

Installation::Installation() {
  const char* const other = std::getenv(kDaemonVariable);
  if (other != nullptr) other_ = other;
  const fs::path root = directory_.path();
  fs::create_directories(root / "bin");
  fs::create_directories(root / "lib/sim");
  fs::copy_file(other_.empty() ? HEADGATE_DAEMON : other_, root / "bin/headgated");
  fs::copy_file(HEADGATE_LIMITER, root / "lib/libheadgate.so");
  for (const char* each : {"libcuda.so.1", "libnvidia-ml.so.1", "nvidia-cuda-mps-control"})
    fs::copy_file(fs::path(SIMULATOR_DIR) / each, root / "lib/sim" / each);
  for (const char* each : {"", "bin", "lib", "lib/sim"}) ::chmod((root / each).c_str(), 0755);
  ::setenv(kDaemonVariable, (root / "bin/headgated").c_str(), 1);
}

Installation::~Installation() {
  other_.empty() ? ::unsetenv(kDaemonVariable) : ::setenv(kDaemonVariable, other_.c_str(), 1);
}

ShareNode::ShareNode(bool rootless, const std::string& profile)
    : engine(rootless), daemon({"--cdi-dir", directory.path()}, profile) {
  for (const std::string& each : {directory.path(), daemon.cli().directory(), daemon.cli().runtime()})
    ::chmod(each.c_str(), 0755);
  const Said said = daemon.cli().shell("chmod -R a+rwX $D/node; export TENANT=" BYPASS_PROGRAM
                                       " LIMITER=" HEADGATE_LIMITER " SIM=" SIMULATOR_DIR " IMAGE=" +
                                       image() + "; " + kMakeImage);
  if (said.status != 0) throw std::runtime_error("no image: " + said.err);
  engine.give_files();
  const Said made = daemon.cli().shell("$H share create alice --mem 2GiB --user " + std::to_string(engine.user()));
  if (made.status != 0) throw std::runtime_error("no share: " + made.err);
}

std::vector<std::string> ShareNode::run_image(const std::vector<std::string>& options,
                                              const std::vector<std::string>& command) const {
  std::vector<std::string> words = {"run"};
  for (const auto& more :
       {engine.run_options(), {"--env", "NVIDIA_VISIBLE_DEVICES=all"}, options, {"--rootfs", image()}, command})
    words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> ShareNode::run(const std::vector<std::string>& options,
                                        const std::vector<std::string>& command) const {
  std::vector<std::string> all = {"--device", "headgate.io/share=alice"};
  all.insert(all.end(), options.begin(), options.end());
  return run_image(all, command);
}

}  // namespace headgate::e2e
