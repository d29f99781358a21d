// Compares frames of the live views with reviewed golden files.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/term/frame.hpp"

namespace headgate::cli {

inline constexpr FrameStyle kPlain{.colour = false, .ascii = false};
inline constexpr FrameStyle kAscii{.colour = false, .ascii = true};

// Times in UTC, wherever the test runs.
class FrameTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC0", 1);
    ::tzset();
  }
};

inline std::vector<std::string> lines_of(const std::string& frame) {
  std::vector<std::string> lines{""};
  for (const char c : frame) {
    if (c == '\n') lines.emplace_back();
    else lines.back() += c;
  }
  return lines;
}

// HEADGATE_WRITE_FRAMES=1 rewrites the files; review the diff.
inline void expect_frame(const std::string& name, const std::string& frame) {
  const std::string path = std::string(HEADGATE_TOP_FRAMES) + "/" + name;
  if (std::getenv("HEADGATE_WRITE_FRAMES") != nullptr) std::ofstream(path) << frame << "\n";
  std::ifstream in(path);
  const std::string golden((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(frame + "\n", golden) << "not as in " << path;
}

}  // namespace headgate::cli
