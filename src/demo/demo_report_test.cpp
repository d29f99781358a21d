#include "demo/demo_report.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/term/frame.hpp"
#include "cli/top/test_node.hpp"

namespace headgate::demo {

using namespace cli;  // terminal, views, daemon client
namespace {

constexpr std::uint64_t kGiB = kTestGiB;

DemoTenant tenant_of(DemoRole role) {
  const auto cast = demo_cast(17);
  return *std::ranges::find(cast, role, &DemoTenant::role);
}

snapshot::Snapshot snapshot_of(const DemoTenant& tenant, std::uint64_t used_gib, double held) {
  snapshot::Snapshot snapshot;
  snapshot.shares = {test_share(tenant.name, "root", tenant.limit_bytes / kGiB, used_gib,
                                tenant.compute_percent / 100.0, tenant.ceiling_percent / 100.0, held)};
  return snapshot;
}

DemoMeasured kept_by(DemoRole role) {
  const DemoTenant tenant = tenant_of(role);
  DemoMeasured m;
  m.name = tenant.name;
  m.role = role;
  m.limit_bytes = tenant.limit_bytes;
  m.takes_bytes = m.peak_bytes = tenant.takes_bytes;
  m.promised_percent = tenant.compute_percent;
  m.ceiling_percent = tenant.ceiling_percent;
  m.held_percent = role == DemoRole::trainer ? 50.2 : 17;
  if (role == DemoRole::notebook || role == DemoRole::bypasser) m.told_after_s = 3.1;
  if (role == DemoRole::leaker) {
    m.grow_refused = true;
    m.grown_bytes = 6 * kGiB;
    m.peak_bytes += m.grown_bytes;
    m.refusals = 1;
  }
  if (role == DemoRole::over_asker) {
    m.asked_bytes = tenant.attempts_bytes;
    m.refusals = 1;
  }
  return m;
}

constexpr DemoRole kAll[] = {DemoRole::trainer, DemoRole::server,     DemoRole::notebook,
                             DemoRole::leaker,  DemoRole::over_asker, DemoRole::bypasser};

TEST(DemoTenants, FitOneGpuAndPromiseAtMostAllOfIt) {
  for (const double total_s : {double{kShortestDemoS}, double{kDefaultDemoS}, double{kLongestDemoS}}) {
    const auto cast = demo_cast(total_s);
    ASSERT_EQ(cast.size(), 6u);
    std::uint64_t committed = 0;
    unsigned promised = 0;
    for (const DemoTenant& tenant : cast) {
      committed += tenant.limit_bytes;
      promised += tenant.compute_percent;
      EXPECT_LE(cells(tenant.does), 31u) << tenant.name;
      // The audit needs three readings, one a second; the idle notice needs three seconds.
      EXPECT_GE(total_s - kDemoTailS - tenant.starts_at_s, 5) << tenant.name;
    }
    EXPECT_LE(committed, 136 * kGiB);
    EXPECT_LE(promised, 100u);
  }
}

TEST(DemoReport, EveryTextFitsItsColumn) {
  for (const DemoRole role : kAll) {
    const DemoTenant tenant = tenant_of(role);
    for (const bool started : {false, true}) {
      for (const bool told : {false, true}) {
        DemoProgress progress{.started = started, .ended = false, .told_after_s = {}};
        if (told) progress.told_after_s = 113.4;
        for (const bool refused : {false, true}) {
          auto snapshot = snapshot_of(tenant, 3, 1);
          if (refused) {
            snapshot.shares[0].devices[0].refusals = 3;
            snapshot.shares[0].devices[0].last_refusal = {.asked_bytes = 800 * kGiB, .used_bytes = 128 * kGiB};
          }
          const std::string story = demo_story(tenant, progress, snapshot);
          EXPECT_LE(cells(story), 36u) << story;
        }
      }
    }
    EXPECT_EQ(demo_story(tenant, {.started = true, .ended = false, .told_after_s = {}}, {}), "");
  }
}

TEST(DemoReport, DescribesWhatHappened) {
  const DemoProgress at_work{.started = true, .ended = false, .told_after_s = {}};
  const DemoTenant leaker = tenant_of(DemoRole::leaker);
  auto snapshot = snapshot_of(leaker, 5, 0);
  EXPECT_EQ(demo_story(leaker, at_work, snapshot), "has 5.0 GiB of 8.0 GiB");
  snapshot.shares[0].devices[0].refusals = 1;
  snapshot.shares[0].devices[0].last_refusal = {.asked_bytes = kGiB, .used_bytes = 15 * kGiB / 2};
  EXPECT_EQ(demo_story(leaker, at_work, snapshot), "refused 1.0 GiB at 7.5 GiB, told");
  const DemoTenant bypasser = tenant_of(DemoRole::bypasser);
  EXPECT_NE(demo_story(bypasser, {.started = true, .ended = false, .told_after_s = 3.14}, snapshot_of(bypasser, 0, 0))
                .find("named after 3.1 s"),
            std::string::npos);
}

TEST(DemoVerdict, AKeptPromiseIsKept) {
  for (const DemoRole role : kAll) {
    const DemoVerdict verdict = demo_verdict(kept_by(role));
    EXPECT_TRUE(verdict.kept) << verdict.tenant << ": " << verdict.measured;
    EXPECT_LE(cells(verdict.measured), 41u) << verdict.measured;
    EXPECT_LE(cells(verdict.promised), 19u) << verdict.promised;
  }
}

// Breaks each promise in every way it can be broken.
TEST(DemoVerdict, ABrokenPromiseIsNotKept) {
  const auto broken = [](DemoRole role, auto&& breaks) {
    DemoMeasured m = kept_by(role);
    breaks(m);
    EXPECT_FALSE(demo_verdict(m).kept) << m.name << ": " << demo_verdict(m).measured;
  };
  broken(DemoRole::trainer, [](auto& m) { m.held_percent = 51.1; });
  broken(DemoRole::trainer, [](auto& m) { m.held_percent = 48.9; });
  broken(DemoRole::trainer, [](auto& m) { m.peak_bytes += 1; });
  broken(DemoRole::server, [](auto& m) { m.held_percent = 41.5; });
  broken(DemoRole::server, [](auto& m) { m.held_percent = 0; });
  broken(DemoRole::notebook, [](auto& m) { m.told_after_s.reset(); });
  broken(DemoRole::notebook, [](auto& m) { m.peak_bytes = 0; });
  broken(DemoRole::leaker, [](auto& m) { m.grow_refused = false; });
  broken(DemoRole::leaker, [](auto& m) { m.peak_bytes = m.limit_bytes + 1; });
  broken(DemoRole::leaker, [](auto& m) { m.refusals = 0; });
  broken(DemoRole::over_asker, [](auto& m) { m.given_bytes = 1; });
  broken(DemoRole::over_asker, [](auto& m) { m.refusals = 0; });
  broken(DemoRole::over_asker, [](auto& m) { m.peak_bytes += 1; });
  broken(DemoRole::bypasser, [](auto& m) { m.told_after_s.reset(); });
}

}  // namespace
}  // namespace headgate::demo
