// mps.multi_user: one MPS server for the programs of all users, where the tool's release has that mode.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli_program.hpp"
#include "daemon_program.hpp"
#include "http/client.hpp"
#include "sim_program.hpp"

namespace headgate::e2e {
namespace {

using Json = nlohmann::json;

class MpsAllUsers : public ::testing::Test {
 protected:
  // `release`: the stand-in's. `profile`: TOML of the simulated node.
  void start(const std::string& release, const std::string& profile = {}) {
    const std::string& folder = cli_.directory();
    std::filesystem::permissions(folder, std::filesystem::perms(0755));
    std::ofstream(folder + "/node.toml") << profile;
    std::ofstream(folder + "/config.toml") << "[node]\ncallers = 'all'\n[mps]\nmulti_user = true\n"
                                           << (profile.empty() ? "" : "[sim]\nprofile = '" + folder + "/node.toml'\n");
    daemon_ = std::make_unique<Program>(
        std::vector<std::string>{HEADGATE_DAEMON, "--sim", "--config", folder + "/config.toml"},
        std::map<std::string, std::string>{{"HEADGATE_RUNTIME_DIR", cli_.runtime()},
                                           {"XDG_STATE_HOME", folder + "/state"},
                                           {"HEADGATE_SIM_PROFILE", ""},
                                           {"HEADGATE_SIM_MPS", release},
                                           {"LD_PRELOAD", ""}});
    ASSERT_TRUE(eventually([&] { return cli_.shell("$H share ls").status == 0; })) << daemon_->errors_so_far();
  }
  ~MpsAllUsers() override {
    programs_.clear();
    if (daemon_ == nullptr) return;
    // The daemon ends the control daemon after its last tenant.
    (void)eventually([&] { return groups().empty(); });
    ::kill(daemon_->pid(), SIGTERM);
    daemon_->wait();
  }
  [[nodiscard]] Json ask(const std::string& target) const {
    const auto reply = http::exchange({.path = cli_.runtime() + "/control/headgate.sock"},
                                      {.method = "GET", .target = target}, std::chrono::seconds(20));
    return reply ? Json::parse(reply->body, nullptr, false) : Json();
  }
  [[nodiscard]] Json groups() const { return ask("/v1/mps"); }
  void create(const std::string& words) const {
    const Said made = cli_.shell("$H share create --isolation=mps --mem 2GiB " + words);
    ASSERT_EQ(made.status, 0) << made.err;
  }
  // A program of another user in the share, as in a container: no `headgate run` comes before it.
  Program& run_as(const std::string& uid, const std::string& share, const std::string& group = "all") {
    const std::string files = cli_.directory() + "/files";
    if (!std::filesystem::exists(files)) {
      const Said copied = cli_.shell("mkdir $D/files; cp " HEADGATE_LOAD " $SIM/lib*.so* " HEADGATE_LIMITER
                                     " $D/files; chmod -R a+rX $D/files");
      EXPECT_EQ(copied.status, 0) << copied.err;
    }
    const std::string uuid = ask("/v1/gpus").at(0).at("uuid");
    programs_.push_back(std::make_unique<Program>(
        std::vector<std::string>{"/usr/bin/setpriv", "--reuid", uid, "--regid", uid, "--clear-groups",
                                 files + "/headgate-load", "--duration=60s", "--kernels=200us", "--blocks=132",
                                 "--sync=depth:8", "--no-idle-list"},
        std::map<std::string, std::string>{
            {"HEADGATE_SHARE_DIR", cli_.runtime() + "/shares/" + share},
            {"HEADGATE_SIM_DIR", cli_.runtime() + "/sim/default"},
            {"LD_LIBRARY_PATH", files},
            {"LD_PRELOAD", files + "/" + std::filesystem::path(HEADGATE_LIMITER).filename().string()},
            {"CUDA_MPS_PIPE_DIRECTORY", cli_.runtime() + "/mps/" + uuid + "/" + group + "/pipe"}}));
    return *programs_.back();
  }
  [[nodiscard]] std::string text(const std::string& words) const { return cli_.shell("$H " + words).out; }
  [[nodiscard]] std::string log_directory() const {
    return cli_.runtime() + "/mps/" + groups().at(0).at("uuid").get<std::string>() + "/all/log";
  }

  const Cli cli_;
  std::unique_ptr<Program> daemon_;
  std::vector<std::unique_ptr<Program>> programs_;
};

TEST_F(MpsAllUsers, ProgramsOfTwoUsersRunAtOnceOnOneServer) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  start("555");
  create("first --compute 30% --user 3001");
  create("second --compute 60% --user 3002");
  const std::string shown = text("share show first");
  EXPECT_NE(shown.find("one for all users"), std::string::npos) << shown;
  run_as("3001", "first");
  run_as("3002", "second");
  ASSERT_TRUE(eventually([&] {
    const Json all = groups();
    return all.size() == 1 && all[0]["clients"].size() == 2;
  })) << groups();
  const Json group = groups()[0];
  EXPECT_EQ(group["users"], "all");
  EXPECT_EQ(group["servers"], 1);
  EXPECT_EQ(group["shares"], Json({"first", "second"}));
  EXPECT_TRUE(eventually([&] { return text("metrics").contains("owner_uid=\"all\""); }));
  EXPECT_EQ(text("events --kind mps").find("waits behind"), std::string::npos);
}

TEST_F(MpsAllUsers, AFaultEndsTheProgramsOfAllUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  start("555");
  create("first --user 3001");
  create("second --user 3002");
  Program &one = run_as("3001", "first"), &other = run_as("3002", "second");
  ASSERT_TRUE(eventually([&] {
    const Json all = groups();
    return all.size() == 1 && all[0]["clients"].size() == 2;
  })) << groups();
  std::ofstream(log_directory() + "/demand") << "fault";
  EXPECT_NE(one.wait(), 0);
  EXPECT_NE(other.wait(), 0);
}

TEST_F(MpsAllUsers, AReleaseWithoutTheModeServesOneUserAndIsNamed) {
  start("");
  create("m");
  const std::string events = text("events --kind mps");
  EXPECT_NE(events.find("one user at a time, although mps.multi_user is set"), std::string::npos) << events;
  const std::string shown = text("share show m");
  EXPECT_NE(shown.find("its owner's, for one user at a time"), std::string::npos) << shown;
  EXPECT_FALSE(std::filesystem::exists(cli_.runtime() + "/mps/probe"));
}

// A program behind another user's server hangs in its first call of the driver, and cannot know why.
TEST_F(MpsAllUsers, ARunBehindAnotherUsersServerSaysSoAtOnce) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  start("");
  create("m --user 3001");
  Program& first = run_as("3001", "m", "0");
  const auto clients = [&] {
    const Json all = groups();
    return all.empty() ? Json::array() : all[0]["clients"];
  };
  ASSERT_TRUE(eventually([&] { return clients() == Json{first.pid()}; })) << groups();
  Program run({HEADGATE_COMMAND, "run", "--share", "m", "--", HEADGATE_LOAD, "--duration=60s", "--kernels=200us"},
              {{"HEADGATE_RUNTIME_DIR", cli_.runtime()}, {"CUDA_MPS_PIPE_DIRECTORY", ""}});
  std::string said;
  const auto is_said = [&](const std::string& text) {
    return eventually([&] { return (said += run.errors_so_far()).contains(text); });
  };
  EXPECT_TRUE(is_said("share m: its programs wait: the MPS server of ")) << said;
  EXPECT_TRUE(is_said(" serves uid 3001 until that user's programs there have ended (1 now)\n")) << said;
  ::kill(first.pid(), SIGTERM);
  first.wait();
  EXPECT_TRUE(eventually([&] { return clients().size() == 1 && clients()[0] != first.pid(); })) << groups();
  ::kill(run.pid(), SIGTERM);
  EXPECT_EQ(run.wait(), 0) << "the signal reaches the program";
}

// There the tool takes the option, and the driver refuses the programs.
TEST_F(MpsAllUsers, AGpuOlderThanVoltaServesOneUserAndIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can ask for multi-user mode";
  start("555", "capability_major = 6\n");
  create("m");
  const std::string events = text("events --kind mps");
  EXPECT_NE(events.find("older than Volta"), std::string::npos) << events;
  EXPECT_NE(text("share show m").find("its owner's"), std::string::npos);
}

}  // namespace
}  // namespace headgate::e2e
