#include "guest/ledger/wake.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "guest/ledger/gate.hpp"
#include "guest/ledger/oom_wait.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/ledger/test_crowd.hpp"
#include "guest/ledger/test_page.hpp"

namespace headgate::ledger {
namespace {

class Waking : public testing::Test {
 protected:
  Waking() : policy_(std::make_unique<PolicyPage>()), usage_(make_shared_page()) { policy_->device_count = 1; }
  std::unique_ptr<PolicyPage> policy_;
  const SharedPage usage_;
  static constexpr int kCrowd = kMaxWoken + 36;
};

TEST_F(Waking, AShareWithManyThreadsDoesNotDelayOthersWakeUps) {
  const std::atomic<std::uint32_t>& epoch = policy_->devices[0].gate_epoch;
  EXPECT_EQ(still_waiting(kCrowd, epoch, [&] { wake_at_gate(*policy_, 0); }), 36);
  EXPECT_EQ(still_waiting(kCrowd, epoch, [&] { set_arbitrated(*policy_, 0, true); }), 36);
  EXPECT_EQ(still_waiting(kCrowd, epoch, [&] { set_command(*policy_, Command::pause); }), 36);
  const DeviceGrant grant{.uuid = "GPU-0", .memory_limit_bytes = 1 << 20, .compute_ceiling_ppm = 500'000};
  EXPECT_EQ(still_waiting(kCrowd, epoch, [&] { EXPECT_FALSE(set_limits(*policy_, 0, grant)); }), 36);
}

TEST_F(Waking, ACommandReachesOneThreadOfEachProcessOfAFullShare) {
  const std::atomic<std::uint32_t>& epoch = policy_->command_epoch;
  EXPECT_EQ(still_waiting(kMaxSlots, epoch, [&] { ask_reclaim(*policy_); }), 0);
  EXPECT_EQ(still_waiting(kMaxSlots + 5, epoch, [&] { ask_reclaim(*policy_); }), 5);
}

TEST_F(Waking, MemoryOfTheDeadWakesALimitedNumber) {
  (void)expect_release(*usage_);
  EXPECT_EQ(still_waiting(kCrowd, usage_->releases, [&] { tell_released(*usage_); }), 36);
}

}  // namespace
}  // namespace headgate::ledger
