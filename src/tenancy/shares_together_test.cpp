// Several shares changed in one step.
#include <gtest/gtest.h>

#include <vector>

#include "guest/ledger/slot.hpp"
#include "tenancy/sqlite.hpp"
#include "tenancy/test_live_shares.hpp"

namespace headgate::tenancy {
namespace {

TEST_F(SharesTest, SwapsTwoPromisesInOneStepAcrossARestart) {
  {
    Shares shares = start();
    ASSERT_EQ(words(shares.create(share_of("a", 1, kGiB, 200'000))), "done");
    ASSERT_EQ(words(shares.create(share_of("b", 2, kGiB, 800'000))), "done");
    EXPECT_NE(words(shares.set(share_of("a", 1, kGiB, 800'000))), "done") << "one after the other does not fit";
    const std::vector swapped = {share_of("a", 1, kGiB, 800'000), share_of("b", 2, kGiB, 200'000)};
    EXPECT_EQ(words(shares.set(swapped)), "done");
    EXPECT_EQ(shares.find("a")->pages->policy().devices[0].compute_guarantee_ppm, 800'000u);
    EXPECT_EQ(shares.find("b")->pages->policy().devices[0].compute_guarantee_ppm, 200'000u);
  }
  Shares shares = start();
  EXPECT_EQ(shares.find("a")->share.devices[0].guarantee_ppm, 800'000u);
  EXPECT_EQ(shares.find("b")->share.devices[0].guarantee_ppm, 200'000u);
}

TEST_F(SharesTest, ChangesNoneOfSeveralIfTheyDoNotFitTogether) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("a", 1, kGiB, 200'000))), "done");
  ASSERT_EQ(words(shares.create(share_of("b", 2, kGiB, 800'000))), "done");
  const auto unchanged = [&] {
    return shares.find("a")->pages->policy().devices[0].compute_guarantee_ppm == 200'000 &&
           shares.find("b")->pages->policy().devices[0].compute_guarantee_ppm == 800'000 &&
           shares.find("a")->share.devices[0].guarantee_ppm == 200'000;
  };
  const std::vector too_much = {share_of("b", 2, kGiB, 200'000), share_of("a", 1, kGiB, 810'000)};
  EXPECT_EQ(words(shares.set(too_much)),
            "the share 'a' asks for a guarantee of 81 % of " + kGpu0 + ": 20 % are promised to 1 share");
  EXPECT_TRUE(unchanged());
  const std::vector unknown = {share_of("a", 1, kGiB, 100'000), share_of("c", 2, kGiB)};
  EXPECT_EQ(words(shares.set(unknown)), "there is no share 'c'");
  EXPECT_TRUE(unchanged());
}

// A disk that takes the first row and not the second.
TEST_F(SharesTest, StoresAllOfSeveralChangesOrNone) {
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("a", 1, kGiB, 200'000))), "done");
  ASSERT_EQ(words(shares.create(share_of("b", 2, kGiB, 800'000))), "done");
  {
    auto database = Database::open(state_);
    ASSERT_TRUE(database);
    ASSERT_TRUE(
        database->run("CREATE TRIGGER refuse BEFORE INSERT ON shares WHEN NEW.name = 'b' "
                      "BEGIN SELECT RAISE(ABORT, 'no'); END"));
  }
  const std::vector swapped = {share_of("a", 1, kGiB, 800'000), share_of("b", 2, kGiB, 200'000)};
  EXPECT_NE(words(shares.set(swapped)), "done");
  EXPECT_EQ(shares.find("a")->pages->policy().devices[0].compute_guarantee_ppm, 200'000u) << "pages go back too";
  auto store = Store::open(state_);
  ASSERT_TRUE(store);
  EXPECT_EQ(store->shares()->at(0).devices[0].guarantee_ppm, 200'000u) << "the first row was written alone";
}

// Memory that programs of one share still hold stays committed.
TEST_F(SharesTest, CommitsNoMemoryThatAnotherShareStillHolds) {
  Tenant tenant;
  Shares shares = start();
  ASSERT_EQ(words(shares.create(share_of("a", 1, 60 * kGiB))), "done");
  ASSERT_EQ(words(shares.create(share_of("b", 2, 10 * kGiB))), "done");
  enter("a", tenant);
  ASSERT_TRUE(ledger::reserve(*tenant.pages.usage, 0, tenant.slot, 50 * kGiB, 60 * kGiB).ok);
  const std::vector swapped = {share_of("a", 1, 10 * kGiB), share_of("b", 2, 60 * kGiB)};
  EXPECT_NE(words(shares.set(swapped)), "done");
  ledger::give_back(*tenant.pages.usage, 0, tenant.slot, 50 * kGiB);
  EXPECT_EQ(words(shares.set(swapped)), "done");
}

}  // namespace
}  // namespace headgate::tenancy
