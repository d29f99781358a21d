#include "power/permission.hpp"

#include <gtest/gtest.h>

namespace headgate::power {
namespace {

const Writer kAlice{.uid = 1000, .gids = {1000, 27}, .user = {}, .administrator = false};
const Command kLimit{.operation = Operation::set_power_limit, .power_limit_mw = 250'000};

GpuUse gpu_of(std::vector<std::uint32_t> owners) {
  GpuUse gpu{.index = 1, .uuid = "GPU-b", .owners = {}};
  for (const std::uint32_t uid : owners) gpu.owners.push_back({uid, "user" + std::to_string(uid)});
  return gpu;
}

bool may(const Writer& writer, const GpuUse& gpu, const Command& command, std::vector<Grant> grants = {}) {
  return may_write(writer, gpu, command, grants).has_value();
}

TEST(Permission, TheOwnerOfAllSharesMaySetTheGpu) {
  EXPECT_TRUE(may(kAlice, gpu_of({1000, 1000}), kLimit));
  EXPECT_FALSE(may(kAlice, gpu_of({1000, 1001}), kLimit)) << "a neighbour would be slowed";
  EXPECT_FALSE(may(kAlice, gpu_of({}), kLimit)) << "a GPU without shares has no owner";
  EXPECT_TRUE(may({.uid = 0, .gids = {}, .user = {}, .administrator = true}, gpu_of({1001}), kLimit));
}

TEST(Permission, ATokensUserIsComparedByName) {
  const Writer token{.uid = {}, .gids = {}, .user = "user1000", .administrator = false};
  EXPECT_TRUE(may(token, gpu_of({1000}), kLimit));
  EXPECT_FALSE(may(token, gpu_of({1001}), kLimit));
  const Writer stranger{.uid = {}, .gids = {}, .user = {}, .administrator = false};
  EXPECT_FALSE(may(stranger, {.index = 0, .uuid = "", .owners = {{1000, ""}}}, kLimit)) << "an empty name is no name";
  EXPECT_TRUE(may(token, gpu_of({}), kLimit,
                  {{.uids = {},
                    .gids = {},
                    .users = {"user1000"},
                    .gpus = {},
                    .milliwatts = Bounds{1, 400'000},
                    .mhz = {},
                    .memory_mhz = {}}}));
}

TEST(Permission, AGrantIsForItsUsersGroupsGpusAndValues) {
  Grant grant;
  grant.milliwatts = Bounds{200'000, 300'000};
  const GpuUse gpu = gpu_of({1001});
  EXPECT_FALSE(may(kAlice, gpu, kLimit, {grant})) << "it names no user";
  grant.gids = {27};
  EXPECT_TRUE(may(kAlice, gpu, kLimit, {grant}));
  grant.gids = {};
  grant.uids = {1000};
  EXPECT_TRUE(may(kAlice, gpu, kLimit, {grant}));
  for (const char* name : {"1", "GPU-b"}) {
    grant.gpus = {name};
    EXPECT_TRUE(may(kAlice, gpu, kLimit, {grant})) << name;
  }
  grant.gpus = {"0", "GPU-a"};
  EXPECT_FALSE(may(kAlice, gpu, kLimit, {grant}));
  grant.gpus = {};
  for (const auto& [milliwatts, allowed] :
       {std::pair{199'999U, false}, {200'000U, true}, {300'000U, true}, {300'001U, false}})
    EXPECT_EQ(may(kAlice, gpu, {.operation = Operation::set_power_limit, .power_limit_mw = milliwatts}, {grant}),
              allowed)
        << milliwatts;
  EXPECT_EQ(may_write(kAlice, gpu, {.operation = Operation::set_power_limit, .power_limit_mw = 1}, std::vector{grant})
                .error()
                .hint,
            "accepted by your grant: 200 W to 300 W");
}

TEST(Permission, AGrantIsForItsControlsOnly) {
  const GpuUse gpu = gpu_of({1001});
  Grant grant;
  grant.uids = {1000};
  grant.mhz = Bounds{500, 1500};
  const auto set = [](std::uint32_t min_mhz, std::uint32_t max_mhz) {
    return Command{.operation = Operation::set_gpu_locked_clocks, .clocks = {min_mhz, max_mhz}};
  };
  EXPECT_TRUE(may(kAlice, gpu, set(500, 1500), {grant}));
  EXPECT_FALSE(may(kAlice, gpu, set(499, 1500), {grant}));
  EXPECT_FALSE(may(kAlice, gpu, set(500, 1501), {grant}));
  EXPECT_TRUE(may(kAlice, gpu, {.operation = Operation::reset_gpu_locked_clocks}, {grant}));
  EXPECT_FALSE(may(kAlice, gpu, {.operation = Operation::reset_locked_clocks}, {grant})) << "the memory's too";
  EXPECT_FALSE(may(kAlice, gpu, {.operation = Operation::set_mem_locked_clocks, .clocks = {600, 600}}, {grant}));
  EXPECT_FALSE(may(kAlice, gpu, {.operation = Operation::set_persistence_mode, .enabled = true}, {grant}));
  EXPECT_FALSE(may(kAlice, gpu, kLimit, {grant}));
  grant.persistence = true;
  grant.memory_mhz = Bounds{405, 405};
  EXPECT_TRUE(may(kAlice, gpu, {.operation = Operation::reset_locked_clocks}, {grant}));
  EXPECT_TRUE(may(kAlice, gpu, {.operation = Operation::set_persistence_mode, .enabled = true}, {grant}));
}

}  // namespace
}  // namespace headgate::power
