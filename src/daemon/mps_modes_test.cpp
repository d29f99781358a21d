#include "daemon/mps_control.hpp"

#include <gtest/gtest.h>

#include <set>

namespace headgate::daemon {
namespace {

// Two GPUs, one of which another lease may hold.
class MpsModesOfTwoGpus : public ::testing::Test {
 protected:
  MpsModesOfTwoGpus() {
    for (const char* uuid : {"GPU-one", "GPU-two"}) {
      mps::GroupView group;
      group.key = {uuid, 1000};
      group.daemon_pid = 100;
      groups_.push_back(group);
    }
  }
  void keep(int seconds) {
    for (int i = 0; i < seconds; ++i) modes_.keep(groups_);
  }

  std::vector<mps::GroupView> groups_;
  std::set<std::string> taken_;          // GPUs of foreign leases
  std::map<std::string, int> tries_;     // by GPU
  std::vector<std::string> reported_{};  // GPUs
  MpsModes modes_{
      [this](const std::string& uuid, std::uint32_t, const std::function<void(Result<void>)>& done) {
        ++tries_[uuid];
        done(taken_.contains(uuid) ? Result<void>(fail(ErrorCode::conflict, "held by another")) : Result<void>());
      },
      [this](const mps::GroupKey& group, const Error& why) {
        EXPECT_EQ(why.message, "held by another");
        reported_.push_back(group.uuid);
      }};
};

TEST_F(MpsModesOfTwoGpus, AForeignLeaseIsReportedOnceAndTriedOnceAMinute) {
  taken_ = {"GPU-one"};
  keep(2);
  EXPECT_TRUE(reported_.empty()) << "the lease of a former control daemon ends soon";
  keep(1);
  EXPECT_EQ(reported_, std::vector<std::string>{"GPU-one"});
  EXPECT_EQ(tries_["GPU-one"], 3);
  keep(59);
  EXPECT_EQ(tries_["GPU-one"], 3);
  keep(1);
  EXPECT_EQ(tries_["GPU-one"], 4);
  keep(60 * 60);
  EXPECT_EQ(tries_["GPU-one"], 64);
  EXPECT_EQ(reported_.size(), 1u);
  EXPECT_EQ(tries_["GPU-two"], 3 + 60 + 60 * 60) << "the other GPU is tried each second";
}

TEST_F(MpsModesOfTwoGpus, EachGpuIsReported) {
  taken_ = {"GPU-one"};
  keep(10);
  taken_ = {"GPU-one", "GPU-two"};
  keep(10);
  EXPECT_EQ(reported_, (std::vector<std::string>{"GPU-one", "GPU-two"}));
}

TEST_F(MpsModesOfTwoGpus, AfterTheLeaseHasEndedItIsTriedEachSecondAndReportedAgain) {
  taken_ = {"GPU-one"};
  keep(3);
  taken_.clear();
  keep(60);
  EXPECT_EQ(tries_["GPU-one"], 4) << "a minute after the report it is held";
  keep(5);
  EXPECT_EQ(tries_["GPU-one"], 9);
  taken_ = {"GPU-one"};
  keep(3);
  EXPECT_EQ(reported_.size(), 2u);
}

TEST_F(MpsModesOfTwoGpus, AnotherControlDaemonIsCountedApart) {
  taken_ = {"GPU-one"};
  keep(10);
  groups_[0].daemon_pid = 101;
  keep(3);
  EXPECT_EQ(tries_["GPU-one"], 6);
  EXPECT_EQ(reported_.size(), 2u);
}

TEST_F(MpsModesOfTwoGpus, AGroupWithoutAControlDaemonIsLeftAlone) {
  groups_[0].daemon_pid = 0;
  keep(5);
  EXPECT_EQ(tries_["GPU-one"], 0);
  EXPECT_EQ(tries_["GPU-two"], 5);
}

// The worker of a GPU may answer after its control daemon has gone.
TEST(MpsModes, ALateAnswerForAFormerControlDaemonCountsNothing) {
  std::vector<std::function<void(Result<void>)>> answers;
  int reports = 0;
  MpsModes modes([&](const std::string&, std::uint32_t,
                     std::function<void(Result<void>)> done) { answers.push_back(std::move(done)); },
                 [&](const mps::GroupKey&, const Error&) { ++reports; });
  mps::GroupView group;
  group.key = {"GPU-one", 0};
  group.daemon_pid = 100;
  for (int i = 0; i < 3; ++i) modes.keep({group});
  group.daemon_pid = 101;
  modes.keep({group});
  for (int i = 0; i < 3; ++i) answers[static_cast<std::size_t>(i)](fail(ErrorCode::conflict, "held by another"));
  EXPECT_EQ(reports, 0);
}

}  // namespace
}  // namespace headgate::daemon
