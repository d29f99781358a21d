#include "oci/preload_list.hpp"

#include <gtest/gtest.h>

namespace headgate::oci {
namespace {

constexpr std::string_view kOurs = "/opt/headgate/libheadgate.so";

TEST(PreloadList, TheLimiterIsAddedOnceBesideOthers) {
  EXPECT_EQ(with_limiter("", kOurs), "/opt/headgate/libheadgate.so\n");
  EXPECT_EQ(with_limiter("/a.so", kOurs), "/a.so\n/opt/headgate/libheadgate.so\n");
  const std::string mixed = "# ours: /old/libheadgate.so\n\n/a.so:/b.so # two\n  libc.so\t\n";
  const std::string with = with_limiter(mixed, kOurs);
  EXPECT_EQ(with, mixed + "/opt/headgate/libheadgate.so\n") << "a comment is no entry";
  EXPECT_EQ(with_limiter(with, kOurs), with);
  EXPECT_EQ(without_ours(with), mixed);
}

TEST(PreloadList, AnOldPathOfTheLimiterIsReplacedInPlace) {
  EXPECT_EQ(with_limiter("/a.so /old/libheadgate.so:/b.so\n", kOurs), "/a.so /opt/headgate/libheadgate.so:/b.so\n");
  EXPECT_EQ(with_limiter("libheadgate.so\n/x/libheadgate.so # late\n/y/libheadgate.so\n/b.so\n", kOurs),
            "/opt/headgate/libheadgate.so\n # late\n/b.so\n");
  EXPECT_EQ(with_limiter("/x/mylibheadgate.so /x/libheadgate.so.1 /x/libheadgate-path.so\n", kOurs),
            "/x/mylibheadgate.so /x/libheadgate.so.1 /x/libheadgate-path.so\n/opt/headgate/libheadgate.so\n");
}

TEST(PreloadList, ARemovalRemovesExactlyItsEntries) {
  EXPECT_EQ(without_ours("/opt/headgate/libheadgate.so\n"), "");
  EXPECT_EQ(without_ours("/opt/headgate/libheadgate.so"), "");
  EXPECT_EQ(without_ours("/a.so:/x/libheadgate.so:/b.so\n/x/libheadgate-path.so\n\n# end"), "/a.so:/b.so\n\n# end");
  EXPECT_EQ(without_ours("/a.so  \n"), "/a.so  \n");
}

TEST(PreloadList, APathWithSeparatorsIsNotWritten) {
  EXPECT_TRUE(can_be_preloaded("/opt/head-gate_1.0/libheadgate.so"));
  for (const char* bad : {"", "opt/x", "/with space", "/a:b", "/a#b", "/$LIB/x", "/a\nb", "/tab\t"})
    EXPECT_FALSE(can_be_preloaded(bad)) << bad;
}

}  // namespace
}  // namespace headgate::oci
