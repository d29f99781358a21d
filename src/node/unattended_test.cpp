
#include <set>

#include "tenancy/test_live_shares.hpp"
#include "tenancy/unattended.hpp"

namespace headgate::node {
namespace {

using tenancy::kGiB, tenancy::kGpu0, tenancy::kGpu1, tenancy::share_of;

class UnattendedPages : public tenancy::SharesTest {
 protected:
  void create(tenancy::Share share) {
    if (share.devices[0].guarantee_ppm != 0) share.devices[0].ceiling_ppm = share.devices[0].guarantee_ppm;
    ASSERT_TRUE(shares_.create(std::move(share)));
  }
  void write(const std::string& uuid = kGpu0) {
    write_unattended(shares_, uuid, [this](const std::string& share) { return busy_.contains(share); });
  }
  [[nodiscard]] std::uint32_t part(const std::string& name, std::uint32_t device = 0) {
    return shares_.find(name)->pages->policy().devices[device].compute_unattended_ppm.load();
  }

  [[nodiscard]] std::uint32_t from(const std::string& name) {
    return shares_.find(name)->pages->policy().devices[0].compute_unattended_from_ppm.load();
  }

  tenancy::Shares shares_ = start();
  std::set<std::string> busy_;  // with processes
};

TEST_F(UnattendedPages, HoldThePartsByTheGpusRule) {
  create(share_of("half", 1, kGiB, 500'000));
  create(share_of("a", 1, kGiB));
  create(share_of("b", 1, kGiB));
  create(share_of("elsewhere", 1, kGiB, 0, kGpu1));
  busy_ = {"half", "a", "b"};
  write();
  EXPECT_EQ(part("half"), 500'000u);
  EXPECT_EQ(part("a"), 250'000u);
  EXPECT_EQ(part("b"), 250'000u);
  EXPECT_EQ(part("elsewhere"), 0u) << "no word of another GPU";
  write(kGpu1);
  EXPECT_EQ(part("elsewhere"), ledger::kWholeGpu);
  EXPECT_EQ(from("a"), 0u);
  EXPECT_EQ(from("b"), 250'000u);
  EXPECT_EQ(from("half"), 500'000u);
  EXPECT_EQ(from("elsewhere"), ledger::kWholeGpu);
}

// A daemon that dies between two pages leaves shares with different cycles, so it changes them seldom.
TEST_F(UnattendedPages, HaveACycleForTheLongestKernels) {
  create(share_of("half", 1, kGiB, 500'000));
  create(share_of("tenth", 1, kGiB, 100'000));
  busy_ = {"half", "tenth"};
  const auto cycle_ms = [&](const std::string& name, std::int64_t kernel_ns) {
    shares_.find("tenth")->pages->usage().compute[0].kernel_ns = kernel_ns;
    write();
    return shares_.find(name)->pages->policy().devices[0].compute_unattended_cycle_ms.load();
  };
  EXPECT_EQ(cycle_ms("half", 1'000'000), 100u);
  EXPECT_EQ(cycle_ms("half", 30'000'000), 300u);
  EXPECT_EQ(cycle_ms("tenth", 20'000'000), 300u) << "less, but no half of it";
  EXPECT_EQ(cycle_ms("tenth", 1'000'000), 100u);
  busy_ = {"half"};
  EXPECT_EQ(cycle_ms("half", 30'000'000), 100u) << "of a share without processes";
}

TEST_F(UnattendedPages, FollowProcessesAndPauses) {
  create(share_of("half", 1, kGiB, 500'000));
  create(share_of("a", 1, kGiB));
  create(share_of("b", 1, kGiB));
  busy_ = {"a"};
  write();
  EXPECT_EQ(part("half"), 500'000u);
  EXPECT_EQ(part("a"), 500'000u);
  EXPECT_EQ(part("b"), tenancy::kMinUnattendedPpm);
  busy_ = {"a", "b"};
  ASSERT_TRUE(shares_.pause("a"));
  write();
  EXPECT_EQ(part("a"), tenancy::kMinUnattendedPpm);
  EXPECT_EQ(part("b"), 500'000u);
}

TEST_F(UnattendedPages, StartWithSharesOnSeveralGpus) {
  create(share_of("a", 1, kGiB));
  tenancy::Share both = share_of("both", 1, kGiB);
  both.devices.push_back(share_of("", 1, kGiB, 0, kGpu1).devices[0]);
  create(std::move(both));
  busy_ = {"a", "both"};
  write();
  EXPECT_EQ(from("both"), 0u);
  EXPECT_EQ(from("a"), 500'000u);
}

TEST_F(UnattendedPages, GiveLatencyItsCeilingAndOvercommitNoPromise) {
  tenancy::Share latency = share_of("latency", 1, kGiB);
  latency.devices[0].priority_class = tenancy::Class::latency;
  latency.devices[0].ceiling_ppm = 200'000;
  create(std::move(latency));
  create(share_of("half", 1, kGiB, 500'000));
  tenancy::Share beyond = share_of("beyond", 1, kGiB, 800'000);
  beyond.overcommit = true;
  create(std::move(beyond));
  busy_ = {"beyond"};
  write();
  EXPECT_EQ(part("latency"), 200'000u);
  EXPECT_EQ(part("half"), 500'000u);
  EXPECT_EQ(part("beyond"), 300'000u);
}

}  // namespace
}  // namespace headgate::node
