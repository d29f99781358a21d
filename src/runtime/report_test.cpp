#include "runtime/report.hpp"

#include <gtest/gtest.h>

namespace headgate::runtime {
namespace {

TEST(RuntimeReport, IsALineThatEnginesRead) {
  EXPECT_EQ(log_line(Severity::error, "a \"b\"\n\xff", "2026-11-26T18:00:00Z"),
            "{\"level\":\"error\",\"msg\":\"a \\\"b\\\"\\n\xEF\xBF\xBD\",\"time\":\"2026-11-26T18:00:00Z\"}\n");
  EXPECT_EQ(sentence({ErrorCode::failed, "it\nis so", "do that"}), "headgate: it?is so (do that)");
  EXPECT_EQ(sentence({ErrorCode::failed, "it is so", ""}), "headgate: it is so");
}

}  // namespace
}  // namespace headgate::runtime
