#include "cli/join.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace headgate::cli {
namespace {

TEST(Join, WhoMayNotChangeTheShareIsToldToChooseAnotherName) {
  snapshot::Snapshot picture;
  picture.gpus.emplace_back().uuid = "GPU-9c2f0000-1111";
  picture.gpus[0].memory_total_bytes = 80ull << 30;
  snapshot::Share share;
  share.name = "k";
  share.owner_uid = 4'000'000'001;
  share.devices.emplace_back().uuid = picture.gpus[0].uuid;
  share.devices[0].memory_limit_bytes = 8ull << 30;
  RunOptions run;
  run.memory = "8GiB";
  EXPECT_TRUE(agrees(run, {}, share, picture));
  run.memory = "4GiB";
  const auto hint = [&](std::uint32_t owner) {
    share.owner_uid = owner;
    const uid_t before = ::geteuid();
    if (before == 0 && ::seteuid(4'000'000'001) != 0) ADD_FAILURE() << "seteuid";
    const auto refused = agrees(run, {}, share, picture);
    const uid_t self = ::geteuid();
    if (before == 0 && ::seteuid(0) != 0) ADD_FAILURE() << "seteuid";
    EXPECT_EQ(refused.error().message,
              "the share 'k' of headgated has its limits already: --mem 8.0 GiB, asked was --mem 4GiB");
    return std::pair(self, refused.error().hint);
  };
  const auto [self, others] = hint(4'000'000'002);
  EXPECT_EQ(others, "use the same values, leave them out to join it, or choose another --name");
  EXPECT_EQ(hint(self).second, others + "; headgate share set k changes them");
}

}  // namespace
}  // namespace headgate::cli
