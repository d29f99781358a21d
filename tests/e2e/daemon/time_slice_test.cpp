// Compute mode and time slices of GPUs through headgated, and shares of --isolation=timeslice.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon_program.hpp"

namespace headgate::e2e {
namespace {

using Json = nlohmann::json;

// A daemon with this program as its nvidia-smi; empty: as it finds one.
class SlicedGpu {
 public:
  explicit SlicedGpu(const std::string& smi = {}) {
    const std::string file = folder_.path() + "/config.toml";
    std::ofstream(file) << "[power]\n" << (smi.empty() ? "" : "nvidia_smi = '" + smi + "'\n");
    daemon_ = std::make_unique<Daemon>(std::vector<std::string>{"--config", file});
  }
  // Which keeps the length in a file, and prints what nvidia-smi 535 prints.
  static std::string stand_in(const Directory& folder) {
    const std::string path = folder.path() + "/smi", kept = folder.path() + "/length";
    std::ofstream(path) << "#!/bin/sh\nset -- $4 " + kept +
                               "\ncase $1 in\n--set-timeslice=*) echo ${1#*=} >$2; echo Successfully set;;\n"
                               "--list) n=$(cat $2 2>/dev/null || echo 0); set -- Default Short Medium Long; shift $n;"
                               " echo \"|   0     Timeslice      $1   |\";;\n*) exit 2;;\nesac\n";
    ::chmod(path.c_str(), 0755);
    return path;
  }
  [[nodiscard]] Said shell(const std::string& words) const { return daemon_->cli().shell(words); }
  [[nodiscard]] Daemon& daemon() const { return *daemon_; }
  [[nodiscard]] std::string mode() const { return daemon_->snapshot().gpus.at(0).compute_mode; }

 private:
  Directory folder_;
  std::unique_ptr<Daemon> daemon_;
};

std::string kept_length(const Directory& folder) {
  std::ifstream file(folder.path() + "/length");
  std::string text;
  file >> text;
  return text;
}

TEST(GpuTimeslice, CanBeSetPermanentlyOrAsALease) {
  const Directory folder;
  const SlicedGpu gpu(SlicedGpu::stand_in(folder));
  const Said stays = gpu.shell("$H gpu timeslice short --gpu 0");
  ASSERT_EQ(stays.status, 0) << stays.err;
  EXPECT_NE(stays.out.find("time slice"), std::string::npos) << stays.out;
  EXPECT_EQ(kept_length(folder), "1");
  const Said tried = gpu.shell("$H gpu timeslice long --gpu 0 --dry-run");
  EXPECT_EQ(tried.status, 0) << tried.err;
  EXPECT_EQ(kept_length(folder), "1");
  Program holder({"/bin/sleep", "600"}, {});
  const Said lease = gpu.shell("$H gpu timeslice long --gpu 0 --pid " + std::to_string(holder.pid()));
  ASSERT_EQ(lease.status, 0) << lease.err;
  EXPECT_EQ(kept_length(folder), "3");
  EXPECT_NE(gpu.shell("$H power status").out.find("time slice"), std::string::npos);
  ::kill(holder.pid(), SIGKILL);
  holder.wait();
  EXPECT_TRUE(eventually([&] { return kept_length(folder) == "1"; })) << "the former length is put back";
  const Said unknown = gpu.shell("$H gpu timeslice endless --gpu 0");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("default, short, medium or long"), std::string::npos) << unknown.err;
}

TEST(GpuTimeslice, AFailingToolIsReportedByItsKindOfFailure) {
  const Directory folder;
  const auto tool = [&](const std::string& name, const std::string& script) {
    std::ofstream(folder.path() + "/" + name) << "#!/bin/sh\n" + script;
    ::chmod((folder.path() + "/" + name).c_str(), 0755);
    return folder.path() + "/" + name;
  };
  const std::string words = "$H gpu timeslice long --gpu 0 --for 1h";
  const Said refused =
      SlicedGpu(tool("old", "echo 'Failed to get compute policies : Not Supported'; exit 3")).shell(words);
  EXPECT_EQ(refused.status, 6) << refused.err;
  EXPECT_NE(refused.err.find("Not Supported"), std::string::npos) << refused.err;
  const Said ignored = SlicedGpu(tool("deaf", "echo '| 0 Timeslice Default |'")).shell(words);
  EXPECT_EQ(ignored.status, 1) << ignored.err;
  EXPECT_NE(ignored.err.find("time slice default"), std::string::npos) << ignored.err;
  EXPECT_EQ(SlicedGpu(folder.path() + "/none").shell(words).status, 6);
}

// Over the simulator's slots of the driver's private table.
TEST(GpuTimeslice, IsSetByTheRealNvidiaSmi) {
  if (::access(NVIDIA_SMI, X_OK) != 0) GTEST_SKIP() << "dev/real-parts has not been run";
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const SlicedGpu gpu(NVIDIA_SMI);
  const auto length = [&] {
    return gpu
        .shell("HEADGATE_SIM_DIR=" + gpu.daemon().cli().directory() +
               "/node LD_LIBRARY_PATH=" SIMULATOR_DIR " " NVIDIA_SMI " compute-policy --list")
        .out;
  };
  EXPECT_NE(length().find("Default"), std::string::npos) << length();
  Program holder({"/bin/sleep", "600"}, {});
  const Said set = gpu.shell("$H gpu timeslice long --gpu 0 --pid " + std::to_string(holder.pid()));
  ASSERT_EQ(set.status, 0) << set.err;
  EXPECT_NE(length().find("Long"), std::string::npos) << length();
  ::kill(holder.pid(), SIGKILL);
  holder.wait();
  EXPECT_TRUE(eventually([&] { return length().contains("Default"); })) << length();
}

TEST(GpuMode, CanBeSetPermanentlyOrAsALease) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const SlicedGpu gpu;
  ASSERT_EQ(gpu.shell("$H gpu mode prohibited --gpu 0").status, 0);
  EXPECT_TRUE(eventually([&] { return gpu.mode() == "prohibited"; }));
  ASSERT_EQ(gpu.shell("$H gpu mode default --gpu 0").status, 0);
  Program holder({"/bin/sleep", "600"}, {});
  const Said lease = gpu.shell("$H gpu mode exclusive --gpu 0 --pid " + std::to_string(holder.pid()));
  ASSERT_EQ(lease.status, 0) << lease.err;
  EXPECT_TRUE(eventually([&] { return gpu.mode() == "exclusive process"; }));
  ::kill(holder.pid(), SIGKILL);
  holder.wait();
  EXPECT_TRUE(eventually([&] { return gpu.mode() == "default"; }));
  const Said unknown = gpu.shell("$H gpu mode shared --gpu 0");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("exclusive"), std::string::npos) << unknown.err;
}

TEST(TimesliceShare, HasTheDriversSlicesAndNoTurns) {
  const SlicedGpu gpu;
  ASSERT_EQ(gpu.shell("$H share create t --isolation=timeslice --mem 8GiB").status, 0);
  const auto policy = [&] { return gpu.daemon().snapshot().gpus.at(0).policy_in_force; };
  EXPECT_EQ(policy(), "fair");
  EXPECT_NE(gpu.shell("$H share show t").out.find("timeslice"), std::string::npos);
  {
    Program tenant({HEADGATE_COMMAND, "run", "--share", "t", "--", HEADGATE_LOAD, "--duration=60s", "--no-idle-list"},
                   {{"HEADGATE_RUNTIME_DIR", gpu.daemon().cli().runtime()}});
    EXPECT_TRUE(eventually([&] { return policy() == "off"; }));
    EXPECT_EQ(gpu.daemon().snapshot().gpus.at(0).policy, "fair");
    EXPECT_EQ(gpu.daemon().share("t").level, "hook") << "memory and ceiling are held as ever";
    ::kill(tenant.pid(), SIGTERM);
    tenant.wait();
  }
  EXPECT_TRUE(eventually([&] { return policy() == "fair"; }));
  const std::string events = gpu.shell("$H events --kind gpu.timeslice").out;
  EXPECT_NE(events.find("have the driver's time slices on GPU 0"), std::string::npos) << events;
  EXPECT_NE(events.find("its policy is fair"), std::string::npos) << events;
}

TEST(TimesliceShare, IsRefusedWhileTheGpuIsInAnotherMode) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the simulated driver lets only root set GPUs";
  const SlicedGpu gpu;
  ASSERT_EQ(gpu.shell("$H share create t --isolation=timeslice --mem 8GiB").status, 0);
  ASSERT_EQ(gpu.shell("$H share create m --isolation=mps --mem 8GiB").status, 0);
  for (const auto& [mode, share, fits] : {std::tuple{"exclusive", "t", false},
                                          {"prohibited", "t", false},
                                          {"prohibited", "m", false},
                                          {"exclusive", "m", true},
                                          {"default", "t", true}}) {
    ASSERT_EQ(gpu.shell(std::string("$H gpu mode ") + mode + " --gpu 0").status, 0);
    const std::string shown = std::string(mode) == "exclusive" ? "exclusive process" : mode;
    ASSERT_TRUE(eventually([&] { return gpu.mode() == shown; }));
    const Said run = gpu.shell(std::string("$H run --share ") + share + " -- true");
    EXPECT_EQ(run.status == 0, fits) << mode << " " << share << ": " << run.err;
    if (!fits) {
      EXPECT_NE(run.err.find("is in compute mode " + shown), std::string::npos) << run.err;
    }
  }
}

}  // namespace
}  // namespace headgate::e2e
