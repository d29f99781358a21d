#include "daemon/collector_files.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace headgate::daemon {
namespace {

class JobFilesTest : public testing::Test {
 protected:
  JobFilesTest() { std::filesystem::create_directory(directory_); }
  ~JobFilesTest() override { std::filesystem::remove_all(directory_); }
  std::string text(const std::string& name) const {
    std::ifstream in(directory_ + "/" + name);
    if (!in) return "not there";
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  const std::string directory_ = testing::TempDir() + "headgate-jobs." + std::to_string(::getpid());
};

snapshot::Process process(const std::string& where, const std::string& uuid) {
  snapshot::Process process;
  process.where = where;
  process.devices = {{.uuid = uuid, .driver_bytes = 1, .ledger_bytes = 0, .busy_ratio = {}}};
  return process;
}

TEST_F(JobFilesTest, EachGpuListsItsJobsOrHasAnEmptyFile) {
  snapshot::Snapshot s;
  for (const char* uuid : {"GPU-0", "GPU-1", ""}) {
    s.gpus.emplace_back().uuid = uuid;
    s.gpus.back().index = static_cast<std::uint32_t>(s.gpus.size() - 1);
  }
  s.processes = {process("slurm 77.0", "GPU-0"), process("slurm 77.1", "GPU-0"), process("slurm 1234.batch", "GPU-0"),
                 process("pod ml/train", "GPU-1")};
  const JobsOfGpus jobs = jobs_of(s);
  EXPECT_EQ(jobs, (JobsOfGpus{{0, {"1234", "77"}}, {1, {}}}));
  JobFiles files(directory_);
  ASSERT_TRUE(files.write(jobs));
  EXPECT_EQ(text("0"), "1234\n77\n");
  EXPECT_EQ(text("1"), "");
  EXPECT_EQ(text("2"), "not there") << "a GPU that does not answer";
  EXPECT_EQ(text("0.new"), "not there");
  ASSERT_TRUE(files.write({{0, {"78"}}, {1, {}}}));
  EXPECT_EQ(text("0"), "78\n");
  ASSERT_TRUE(files.clear());
  EXPECT_EQ(text("0"), "") << "jobs of a daemon that is gone";
}

TEST_F(JobFilesTest, AFailedWriteIsRepeatedNextTime) {
  JobFiles files(directory_ + "/far/later");
  const auto failed = files.write({{0, {"5"}}});
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("/far/later/0"), std::string::npos) << failed.error().message;
  std::filesystem::create_directory(directory_ + "/far");
  ASSERT_TRUE(files.write({{0, {"5"}}}));
  EXPECT_EQ(text("far/later/0"), "5\n");
}

}  // namespace
}  // namespace headgate::daemon
