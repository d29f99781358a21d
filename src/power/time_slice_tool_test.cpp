// The tool as a shell script that prints what nvidia-smi 535.261.03 prints.
#include "power/nvml_manager.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace headgate::power {
namespace {

constexpr const char* kHead =
    "+-------------------------------------+\n| GPU compute policies:               |\n"
    "| GPU     Name           Value        |\n|=====================================|\n";
const std::string kTable =
    std::string(kHead) + "|   0     Timeslice      Long         |\n+-------------------------------------+\n";

class TimeSlices : public ::testing::Test {
 protected:
  TimeSlices() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hg-slices-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~TimeSlices() override { std::filesystem::remove_all(folder_); }

  TimeSliceTool tool(const std::string& script) const {
    const std::string path = folder_ + "/nvidia-smi";
    std::ofstream(path) << "#!/bin/sh\necho \"$@\" >>" + folder_ + "/asked\n" + script;
    ::chmod(path.c_str(), 0755);
    return TimeSliceTool({.program = path, .environment = {"SLICE=4"}, .timeout = std::chrono::milliseconds(2'000)});
  }
  [[nodiscard]] std::string asked() const {
    std::ifstream file(folder_ + "/asked");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(TimeSlices, AreReadAndSetWithoutAShell) {
  const auto smi = tool("[ \"$4\" = --list ] && cat <<'E'\n" + kTable + "E\nexit 0\n");
  EXPECT_EQ(smi.read("GPU-1; touch x").value(), 3u);
  EXPECT_TRUE(smi.set("GPU-1; touch x", 2));
  EXPECT_EQ(asked(), "compute-policy -i GPU-1; touch x --list\ncompute-policy -i GPU-1; touch x --set-timeslice=2\n");
  EXPECT_EQ(tool("[ $SLICE = 4 ] && echo '| 0 Timeslice Short |'\n").read("GPU-1").value(), 1u);
}

TEST_F(TimeSlices, ARefusalHasTheToolsMessage) {
  const auto of = [&](const std::string& words, int status) {
    return tool("echo '" + words + "'; exit " + std::to_string(status)).set("GPU-1", 1).error();
  };
  EXPECT_EQ(of("Failed to set timeslice for requested devices : Not Supported", 3).code, ErrorCode::unsupported);
  const Error denied = of("Failed to set timeslice for requested devices : Insufficient Permissions", 4);
  EXPECT_EQ(denied.code, ErrorCode::denied);
  EXPECT_NE(denied.message.find("status 4: Failed to set timeslice"), std::string::npos) << denied.message;
  EXPECT_EQ(of("Unknown Error", 255).code, ErrorCode::failed);
  EXPECT_EQ(TimeSliceTool({.program = folder_ + "/none"}).read("GPU-1").error().code, ErrorCode::unsupported);
}

TEST_F(TimeSlices, ABrokenToolIsNamed) {
  const TimeSliceTool slow({.program =
                                [&] {
                                  (void)tool("exec sleep 60");
                                  return folder_ + "/nvidia-smi";
                                }(),
                            .environment = {},
                            .timeout = std::chrono::milliseconds(100)});
  EXPECT_NE(slow.read("GPU-1").error().message.find("did not answer within 100 ms"), std::string::npos);
  for (const char* script :
       {"echo hello", "exit 0", "kill -9 $$", "yes | head -c 1000000", "echo '| 0 Timeslice Endless |'",
        "echo '| 0 Timeslice Long |'; echo '| 1 Timeslice Long |'"}) {
    const auto read = tool(script).read("GPU-1");
    ASSERT_FALSE(read) << script;
    EXPECT_EQ(read.error().code, ErrorCode::failed) << script;
  }
}

TEST(ParseTimeSlice, ReadsTheOneRow) {
  EXPECT_EQ(parse_time_slice(kTable), 3u);
  EXPECT_EQ(parse_time_slice("|   7     TimeSlice    DEFAULT   |\r\n"), 0u);
  EXPECT_FALSE(parse_time_slice(kHead));
  EXPECT_FALSE(parse_time_slice(""));
  EXPECT_FALSE(parse_time_slice("| 0 Timeslice |"));
}

}  // namespace
}  // namespace headgate::power
