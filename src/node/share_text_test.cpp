#include "node/share_text.hpp"

#include <gtest/gtest.h>

#include "tenancy/test_shares.hpp"

namespace headgate::node {
namespace {

TEST(ShareText, OvercommittedMemoryIsNotCalledPromised) {
  tenancy::Share share = tenancy::share_of("eve", 1000, 8 * tenancy::kGiB, 600'000);
  share.devices[0].ceiling_ppm = 800'000;
  EXPECT_EQ(describe(share), "8.0 GiB, 60 % promised, at most 80 % on GPU-00000000");
  share.overcommit = true;
  EXPECT_EQ(describe(share), "8.0 GiB, overcommitted, at most 80 % on GPU-00000000");
}

TEST(ShareText, EachChangeHasTheOldAndTheNewValue) {
  const tenancy::Share before = tenancy::share_of("a", 1000, 8 * tenancy::kGiB, 500'000);
  EXPECT_EQ(describe_changes(before, before), "");
  const struct {
    void (*change)(tenancy::Share& share);
    const char* text;
  } cases[] = {
      {[](auto& s) { s.devices[0].memory_limit_bytes.reset(); }, "mem 8.0 GiB -> none"},
      {[](auto& s) { s.devices[0].host_limit_bytes = tenancy::kGiB; }, "host-mem none -> 1.0 GiB"},
      {[](auto& s) { s.devices[0].guarantee_ppm = 0; }, "compute 50 % -> none"},
      {[](auto& s) { s.devices[0].ceiling_ppm = 800'000; }, "ceiling 100 % -> 80 %"},
      {[](auto& s) { s.devices[0].weight = 200; }, "weight 100 -> 200"},
      {[](auto& s) { s.devices[0].priority_class = tenancy::Class::latency; }, "class normal -> latency"},
      {[](auto& s) { s.admit = tenancy::Admit::ask; }, "admit now -> ask"},
      {[](auto& s) { s.oom_wait = std::chrono::minutes(5); }, "on-oom fail -> wait=5m"},
      {[](auto& s) { s.ttl = std::chrono::hours(8); }, "ttl none -> 8h"},
      {[](auto& s) { s.freeze_after = std::chrono::minutes(10); }, "freeze-after none -> 10m"},
      {[](auto& s) { s.idle_notice = std::chrono::hours(2); }, "idle-notice none -> 2h"},
      {[](auto& s) { s.users = {4'000'000'001, 4'000'000'002}; }, "user none -> 4000000001 and 4000000002"},
      {[](auto& s) { s.groups = {4'000'000'001}; }, "group none -> 4000000001"},
      {[](auto& s) { s.everyone = true; }, "everyone no -> yes"},
      {[](auto& s) { s.overcommit = true; }, "overcommit no -> yes"},
      {[](auto& s) { s.until_empty = true; }, "until-empty no -> yes"},
      {[](auto& s) { s.devices[0].weight = 7, s.ttl = std::chrono::hours(1); }, "weight 100 -> 7, ttl none -> 1h"},
  };
  for (const auto& [change, text] : cases) {
    tenancy::Share after = before;
    change(after);
    EXPECT_EQ(describe_changes(before, after), text);
  }
}

TEST(ShareText, AChangeOfAllGpusIsReportedOnceOfOneWithItsName) {
  tenancy::Share before = tenancy::share_of("a", 1000, 8 * tenancy::kGiB);
  before.devices.push_back(before.devices[0]);
  before.devices[1].uuid = tenancy::kGpu1;
  tenancy::Share after = before;
  for (auto& device : after.devices) device.weight = 200;
  EXPECT_EQ(describe_changes(before, after), "weight 100 -> 200");
  after.devices[0].weight = 100;
  EXPECT_EQ(describe_changes(before, after), "weight 100 -> 200 on GPU-11111111");
}

}  // namespace
}  // namespace headgate::node
