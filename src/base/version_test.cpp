#include "base/version.hpp"

#include <gtest/gtest.h>

namespace headgate {
namespace {

TEST(Version, ReportsOnlyWhatIsKnown) {
  EXPECT_EQ(version_text({"0.1.0", "", false}), "0.1.0") << "built from a tarball";
  EXPECT_EQ(version_text({"0.1.0", "1a2b3c4d5e6f", false}), "0.1.0 (commit 1a2b3c4d5e6f)");
  EXPECT_EQ(version_text({"0.1.0", "1a2b3c4d5e6f", true}), "0.1.0 (commit 1a2b3c4d5e6f, modified)");
  EXPECT_TRUE(version_text().starts_with(kVersion.number));
}

}  // namespace
}  // namespace headgate
