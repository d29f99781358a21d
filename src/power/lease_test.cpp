#include "power/lease.hpp"

#include <gtest/gtest.h>

namespace headgate::power {
namespace {

TEST(Lease, ARequestIsReadAndEachMistakeSaid) {
  const auto request = parse_lease_request(
      R"({"gpus":[0,"GPU-1"],"settings":{"power_limit_mw":200000,"persistence":true,"gpu_clocks_mhz":[210,900],"compute_mode":3},"holder_pid":7,"ttl_s":60})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->gpus, (std::vector<std::string>{"0", "GPU-1"}));
  EXPECT_EQ(request->wanted.power_limit_mw, 200'000u);
  EXPECT_EQ(request->wanted.gpu_clocks, (ClockRange{210, 900}));
  EXPECT_EQ(request->holder_pid, 7u);
  EXPECT_EQ(request->ttl_s, 60u);
  const std::pair<const char*, const char*> bad[] = {
      {"[]", "no JSON object"},
      {R"({"settings":{"persistence":true},"ttl_s":1})", "gpus is missing"},
      {R"({"gpus":[],"settings":{"persistence":true},"ttl_s":1})", "no list of GPUs"},
      {R"({"gpus":[-1],"settings":{"persistence":true},"ttl_s":1})", "no index and no UUID"},
      {R"({"gpus":[0],"ttl_s":1})", "settings names nothing"},
      {R"({"gpus":[0],"settings":{"watts":5},"ttl_s":1})", "unknown key 'watts'"},
      {R"({"gpus":[0],"settings":{"power_limit_mw":4294967296},"ttl_s":1})", "settings.power_limit_mw = 4294967296"},
      {R"({"gpus":[0],"settings":{"power_limit_mw":"200000"},"ttl_s":1})", "is not accepted"},
      {R"({"gpus":[0],"settings":{"gpu_clocks_mhz":[900,210]},"ttl_s":1})", "is not accepted"},
      {R"({"gpus":[0],"settings":{"compute_mode":1},"ttl_s":1})", "is not accepted"},
      {R"({"gpus":[0],"settings":{"persistence":true}})", "neither holder_pid nor ttl_s"},
      {R"({"gpus":[0],"settings":{"persistence":true},"ttl_s":0})", "ttl_s is no number"},
      {R"({"gpus":[0],"settings":{"persistence":true},"ttl_s":2592001})", "ttl_s is no number"},
      {R"({"gpus":[0],"settings":{"persistence":true},"holder_pid":4294967295})", "holder_pid is no number"},
      {R"({"gpus":[0],"settings":{"persistence":true},"ttl_s":1,"x":1})", "unknown key 'x'"},
  };
  for (const auto& [text, words] : bad) {
    const auto refused = parse_lease_request(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_NE(refused.error().message.find(words), std::string::npos) << refused.error().message;
  }
}

TEST(Lease, WhatIsStoredIsReadBack) {
  Lease lease{.id = "ab", .uuids = {"GPU-1"}, .wanted = {}, .saved = {}};
  lease.wanted.power_limit_mw = 200'000;
  lease.wanted.gpu_clocks = ClockRange{210, 900};
  lease.saved["GPU-1"].power_limit_mw = 350'000;
  lease.saved["GPU-1"].gpu_clocks = ClockRange{};
  lease.owner_uid = 1000;
  lease.holder_pid = 7;
  lease.holder_start_time = 99;
  lease.ends_at_s = -1;
  EXPECT_EQ(parse_leases(leases_json({lease, lease})), (std::vector{lease, lease}));
  for (const char* text : {"", "{}", "[1]", "[{}]", R"([{"id":1}])"}) EXPECT_FALSE(parse_leases(text)) << text;
}

TEST(Lease, PersistenceIsSetFirstAndPutBackLast) {
  Settings settings;
  settings.persistence = true;
  settings.power_limit_mw = 200'000;
  settings.gpu_clocks = ClockRange{};
  const auto apply = commands_to_apply(settings), restore = commands_to_restore(settings);
  ASSERT_EQ(apply.size(), 3u);
  EXPECT_EQ(apply.front().operation, Operation::set_persistence_mode);
  EXPECT_EQ(restore.back().operation, Operation::set_persistence_mode);
  EXPECT_EQ(restore.front().operation, Operation::reset_gpu_locked_clocks) << "no clocks were locked before";
}

}  // namespace
}  // namespace headgate::power
