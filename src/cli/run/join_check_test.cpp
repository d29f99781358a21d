#include "cli/run/run_request.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

namespace headgate::cli {
namespace {

TEST(Join, AUserWithoutRightsIsToldToChooseAnotherName) {
  snapshot::Snapshot snapshot;
  snapshot.gpus.emplace_back().uuid = "GPU-9c2f0000-1111";
  snapshot.gpus[0].memory_total_bytes = 80ull << 30;
  snapshot::Share share;
  share.name = "k";
  share.owner_uid = 4'000'000'001;
  share.devices.emplace_back().uuid = snapshot.gpus[0].uuid;
  share.devices[0].memory_limit_bytes = 8ull << 30;
  RunOptions run;
  run.mem = "8GiB";
  EXPECT_TRUE(agrees(run, {}, share, snapshot));
  run.mem = "4GiB";
  const auto hint = [&](std::uint32_t owner) {
    share.owner_uid = owner;
    const uid_t before = ::geteuid();
    if (before == 0 && ::seteuid(4'000'000'001) != 0) ADD_FAILURE() << "seteuid";
    const auto refused = agrees(run, {}, share, snapshot);
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

TEST(Join, ATimeToLiveMayDifferByClockSkew) {
  constexpr std::uint64_t kSecond = 1'000'000'000, kMade = 1'795'000'000 * kSecond;
  snapshot::Snapshot snapshot;
  snapshot.taken_unix_ns = kMade + 60 * kSecond;
  snapshot::Share share;
  share.name = "k";
  share.created_unix_ns = kMade;
  RunOptions run;
  for (const std::uint64_t left_s : {28'739u, 28'740u, 28'741u}) {
    share.ttl_ns = left_s * kSecond;
    run.ttl = "480m";
    EXPECT_TRUE(agrees(run, {}, share, snapshot)) << left_s;
    run.ttl = "7h";
    const auto refused = agrees(run, {}, share, snapshot);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(refused.error().message.ends_with("--ttl 8 h 0 min, asked was --ttl 7h")) << refused.error().message;
  }
}

// Without the daemon these variables set limits, so a run must not join a share with other limits.
TEST(Join, ValuesOfTheEnvironmentAreComparedToo) {
  snapshot::Snapshot snapshot;
  snapshot.gpus.emplace_back().uuid = "GPU-9c2f0000-1111";
  snapshot.gpus[0].memory_total_bytes = 80ull << 30;
  snapshot::Share share;
  share.name = "k";
  share.devices.emplace_back().uuid = snapshot.gpus[0].uuid;
  share.devices[0].memory_limit_bytes = 48ull << 30;
  share.devices[0].compute_guarantee_ratio = 0.5;
  share.devices[0].compute_ceiling_ratio = 0.8;
  const auto said = [&](const char* name, const char* value) -> std::string {
    ::setenv(name, value, 1);
    const auto good = agrees({}, {}, share, snapshot);
    ::unsetenv(name);
    return good ? "joins" : good.error().message.substr(good.error().message.find("already"));
  };
  EXPECT_TRUE(agrees({}, {}, share, snapshot));
  EXPECT_EQ(said("HEADGATE_MEM", "48GiB"), "joins");
  EXPECT_EQ(said("HEADGATE_MEM", "8GiB"), "already: --mem 48.0 GiB, asked was --mem 8.0 GiB (by the environment)");
  EXPECT_EQ(said("HEADGATE_COMPUTE", "50%"), "joins");
  EXPECT_EQ(said("HEADGATE_COMPUTE", "30%"), "already: --compute 50 %, asked was --compute 30 % (by the environment)");
  EXPECT_EQ(said("HEADGATE_BURST", "80%"), "joins");
  EXPECT_EQ(said("HEADGATE_BURST", "90%"), "already: --burst 80 %, asked was --burst 90 % (by the environment)");
  EXPECT_EQ(said("HEADGATE_GPU", "auto"), "joins");
}

}  // namespace
}  // namespace headgate::cli
