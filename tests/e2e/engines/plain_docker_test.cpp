// `docker run` as users of other limiters write it: the library mounted, named by LD_PRELOAD and told its limits by
// variables, on a node without headgated; and the path library in a container.
#include <gtest/gtest.h>

#include <filesystem>

#include "share_node.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;

class PlainDocker : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string lack = make_docker()->lacks(); !lack.empty()) GTEST_SKIP() << lack;
  }
};

TEST_F(PlainDocker, IsHeldToTheLimitOfEachGpuInAReadOnlyRoot) {
  ShareNode node(false, "base = \"h200\"\nname = \"three\"\ncount = 3\n");
  const auto gpus = node.daemon.snapshot().gpus;
  ASSERT_EQ(gpus.size(), 3u);
  const std::string simulated = node.daemon.cli().directory() + "/node";
  node.daemon.stop();
  const auto docker = make_docker({.image = node.image(), .options = {"--read-only"}});
  const Outcome ran = outcome_of(docker->line(
      {{HEADGATE_LIMITER, "/usr/lib/libcuda_limiter.so"},
       {"/proc", "/host/proc"},
       {simulated, "/node", true},
       {SIMULATOR_DIR "/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"},
       {SIMULATOR_DIR "/libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"}},
      {"LD_PRELOAD=/usr/lib/libcuda_limiter.so", "HEADGATE_SIM_DIR=/node",
       "GPU_DEVICES_UUID=" + gpus[0].uuid + "," + gpus[1].uuid + "," + gpus[2].uuid, "CUDA_MEM_LIMIT_0=2g",
       "CUDA_MEM_LIMIT_1=3g", "CUDA_MEM_LIMIT_2=4g"},
      {"/bin/sh", "-c",
       "for gpu in 0 1 2; do printf 'info\\nalloc 1073741824\\nalloc 5368709120\\n' | "
       "CUDA_VISIBLE_DEVICES=$gpu /usr/bin/tenant libcuda.so.1; done; touch /x 2>/dev/null || echo read-only"}));
  std::string totals, rest;
  for (std::string_view out = ran.out; !out.empty();) {
    const std::string_view line = out.substr(0, out.find('\n'));
    const auto of = line.find(" of ");
    (of == std::string_view::npos ? rest : totals) +=
        std::string(of == std::string_view::npos ? line : line.substr(of + 4)) + "\n";
    out.remove_prefix(std::min(out.size(), line.size() + 1));
  }
  EXPECT_EQ(totals, "2147483648\n3221225472\n4294967296\n") << ran.out << ran.err;
  EXPECT_EQ(rest, "ready 0\n0\n2\nready 0\n0\n2\nready 0\n0\n2\nread-only\n") << ran.err;
}

// Tools that are mounted beside the image's own are found, by the names of vgpu.rs, and the entry point stays as it is.
TEST_F(PlainDocker, FindsToolsThatThePathLibraryAdds) {
  const ShareNode node(false);
  const Directory tools("/tmp");
  fs::copy_file("/usr/bin/printf", tools.path() + "/greet");
  const auto docker = make_docker({.image = node.image()});
  const Outcome ran = outcome_of(docker->line(
      {{PATH_LIBRARY, "/tensor-fusion/libadd_path.so"}, {tools.path(), "/tensor-fusion/bin"}},
      {"LD_PRELOAD=/tensor-fusion/libadd_path.so", "TF_PATH=/tensor-fusion/bin",
       "TF_LD_LIBRARY_PATH=/tensor-fusion/lib"},
      {"/bin/sh", "-c", "greet 'found\\n'; echo $PATH; echo $LD_LIBRARY_PATH; /usr/bin/env -i /usr/bin/env"}));
  EXPECT_EQ(ran.out,
            "found\n/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/tensor-fusion/bin\n"
            "/tensor-fusion/lib\n")
      << ran.err;
  EXPECT_EQ(ran.err, "");
}

}  // namespace
}  // namespace headgate::e2e
