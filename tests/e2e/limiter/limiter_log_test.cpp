// Where the limiter writes its log lines.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "limiter_run.hpp"

namespace {

using namespace headgate::e2e;

const std::string kRefused =
    "headgate: warning: share default: 5000000 bytes refused on GPU 0: 0 of 1048576 bytes are in use\n";

class LogFile : public testing::Test {
 protected:
  [[nodiscard]] Outcome run(Environment environment, const std::vector<std::string>& words) const {
    environment.insert({{"HEADGATE_MEM", "1MiB"}, {"HEADGATE_LOG", "warn"}, {"HEADGATE_LOG_FILE", path_}});
    Tenant tenant;
    tenant.environment = std::move(environment);
    return runtime_.run(tenant, words);
  }
  [[nodiscard]] std::string contents() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  const Runtime runtime_;
  std::string path_ = runtime_.path() + "/log";
};

TEST_F(LogFile, HasTheLinesOfOneProcessAfterAnother) {
  const std::string out = run({}, {"alloc", "5000000"}).out;
  EXPECT_EQ(contents(), kRefused);
  const Outcome second = run({}, {"alloc", "5000000"});
  EXPECT_EQ(second.err, "");
  EXPECT_EQ(second.out, out);
  EXPECT_EQ(contents(), kRefused + kRefused);
}

TEST_F(LogFile, IsUsedByAForkedChildToo) {
  EXPECT_EQ(run({{"HEADGATE_LOG", "info"}, {"HEADGATE_SHARE", "family"}}, {"fork"}).err, "");
  const std::string said = contents();
  EXPECT_NE(said.find("headgate: info: share family, slot 0, "), std::string::npos) << said;
  EXPECT_NE(said.find("headgate: info: share family, slot 1, "), std::string::npos) << said;
}

TEST_F(LogFile, HasMistakesInOtherVariables) {
  EXPECT_EQ(run({{"CUDA_MEM_LIMIT", "0m"}}, {"alloc", "1"}).err, "");
  EXPECT_NE(contents().find("CUDA_MEM_LIMIT='0m' is zero; accepted: "), std::string::npos) << contents();
}

TEST_F(LogFile, ReportsOnceThatItCannotBeWritten) {
  const Outcome outcome = run({{"HEADGATE_LOG_FILE", runtime_.path() + "/none/log"}, {"HEADGATE_GPU", "1"}},
                              {"alloc", "5000000", "5000000"});
  EXPECT_TRUE(outcome.err.starts_with("headgate: warning: HEADGATE_LOG_FILE='" + runtime_.path() +
                                      "/none/log' cannot be written (error 2): "))
      << outcome.err;
  EXPECT_EQ(outcome.err.find("LOG_FILE", outcome.err.find("LOG_FILE") + 1), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("GPU 0 is not in this process's share"), std::string::npos) << outcome.err;
}

TEST_F(LogFile, IsNeverWrittenThroughALink) {
  const std::string target = runtime_.path() + "/precious";
  std::ofstream(target) << "precious";
  std::filesystem::create_symlink(target, path_);
  EXPECT_TRUE(run({}, {"alloc", "5000000"}).err.ends_with(kRefused));
  EXPECT_EQ(contents(), "precious");
}

TEST_F(LogFile, RefusesTheProgramIfItsPathIsRelative) {
  const Outcome outcome = run({{"HEADGATE_LOG_FILE", "log"}}, {"alloc", "1"});
  EXPECT_NE(outcome.err.find("HEADGATE_LOG_FILE='log' is not understood; accepted: an absolute path"),
            std::string::npos)
      << outcome.err;
}

// 0 info, 1 error, 2 warning, 3 fatal, 4 verbose, 5 details: each level includes those before it.
TEST(LoggerLevel, ShowsInfoAlwaysAndWarningsFromLevelTwo) {
  const Runtime runtime;
  for (int level = 0; level <= 5; ++level) {
    Tenant tenant;
    tenant.environment = {{"HEADGATE_MEM", "1MiB"},
                          {"HEADGATE_SHARE", "level-" + std::to_string(level)},
                          {"LOGGER_LEVEL", std::to_string(level)}};
    const std::string err = runtime.run(tenant, {"alloc", "5000000"}).err;
    EXPECT_NE(err.find("headgate: info: share level-"), std::string::npos) << level << err;
    EXPECT_EQ(err.find("headgate: warning: ") != std::string::npos, level >= 2) << level << err;
  }
}

// Every variable that sets a limit, on a machine with one GPU.
TEST(AbsentGpu, ALimitForItIsRefusedByTheVariable) {
  const Runtime runtime;
  for (const auto& [name, value] : Environment{{"HEADGATE_MEM_7", "1MiB"},
                                               {"CUDA_CORE_LIMIT_7", "30"},
                                               {"TENSOR_FUSION_CUDA_MEM_LIMIT", R"({"7": 1048576})"}}) {
    Tenant tenant;
    tenant.environment = {{name, value}};
    const Outcome outcome = runtime.run(tenant, {"alloc", "5"});
    EXPECT_NE(outcome.out.find("ready: 800"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.err.find(name + "='" + value + "' is for a GPU that is not here"), std::string::npos)
        << outcome.err;
  }
}

TEST(Burst, NeedsAHardLimit) {
  const Runtime runtime;
  for (const char* name : {"HEADGATE_BURST", "CUDA_CORE_SOFT_LIMIT", "CUDA_CORE_SOFT_LIMIT_0"}) {
    Tenant tenant;
    tenant.environment = {{name, "80%"}, {"HEADGATE_MEM", "1MiB"}};
    const Outcome outcome = runtime.run(tenant, {"alloc", "5"});
    EXPECT_NE(outcome.out.find("ready: 800"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.err.find(std::string(name) + "='80%' has no hard limit beside it"), std::string::npos)
        << outcome.err;
  }
}

}  // namespace
