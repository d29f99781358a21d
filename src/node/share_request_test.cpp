#include "node/share_request.hpp"

#include <gtest/gtest.h>

namespace headgate::node {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

std::vector<snapshot::Gpu> two_gpus() {
  std::vector<snapshot::Gpu> gpus(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    gpus[i].index = i;
    gpus[i].uuid = i == 0 ? "GPU-aaaa" : "GPU-bbbb";
    gpus[i].model = i == 0 ? "NVIDIA H100 80GB HBM3" : "NVIDIA Something";
    gpus[i].memory_total_bytes = 80 * kGiB;
    gpus[i].memory_free_bytes = 79 * kGiB;
  }
  gpus[0].memory_committed_bytes = 40 * kGiB;
  return gpus;
}

const UserDirectory kDirectory = {
    .user = [](const std::string& name) -> Result<std::optional<std::uint32_t>> {
      if (name == "slow") return fail(ErrorCode::busy, "does not answer");
      return name == "bob" ? std::optional<std::uint32_t>(1002) : std::nullopt;
    },
    .group = [](const std::string&) -> Result<std::optional<std::uint32_t>> { return std::nullopt; },
    .groups_of = {}};

Result<tenancy::Share> made(ShareRequest order, const tenancy::Share* before = nullptr) {
  if (before == nullptr && !order.name) order.name = "alice";
  return share_of(order, before, two_gpus(), kDirectory);
}

ShareRequest order() { return {}; }

TEST(ShareRequests, DefaultsAreTheLeastCommittedGpuAndNoLimit) {
  const auto share = made(order());
  ASSERT_TRUE(share);
  ASSERT_EQ(share->devices.size(), 1u);
  EXPECT_EQ(share->devices[0].uuid, "GPU-bbbb");
  EXPECT_FALSE(share->devices[0].memory_limit_bytes);
  EXPECT_EQ(share->devices[0].ceiling_ppm, ledger::kWholeGpu);
  EXPECT_EQ(share->devices[0].guarantee_ppm, 0u);
}

TEST(ShareRequests, OversubscribedMemoryBeyondTheCardIsOnTheHost) {
  const std::vector<tenancy::Card> cards{{.uuid = "GPU-bbbb", .memory_total_bytes = 80 * kGiB}};
  const tenancy::Reserve reserve{.driver_bytes = 2 * kGiB, .context_room_bytes = 3 * kGiB};
  const auto of = [&](const char* mem, const char* host_mem, bool oversubscribe,
                      const tenancy::Share* before = nullptr) {
    ShareRequest o = order();
    if (mem != nullptr) o.mem = mem;
    if (host_mem != nullptr) o.host_mem = host_mem;
    if (oversubscribe) o.oversubscribe = true;
    tenancy::Share share = made(o, before).value();
    lay_past_the_card(o, cards, reserve, share);
    return std::pair(share.devices.at(0).memory_limit_bytes.value_or(0) / kGiB,
                     share.devices[0].host_limit_bytes / kGiB);
  };
  using Parts = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_EQ(of("100GiB", nullptr, true), Parts(75, 25));
  EXPECT_EQ(of("76GiB", "10GiB", true), Parts(75, 11));
  EXPECT_EQ(of("40GiB", "10GiB", true), Parts(40, 10));
  EXPECT_EQ(of("40GiB", nullptr, true), Parts(40, 0));
  EXPECT_EQ(of("100GiB", nullptr, false), Parts(100, 0)) << "refused where it is let in";
  ShareRequest first = order();
  first.mem = "100GiB";
  first.oversubscribe = true;
  tenancy::Share share = made(first).value();
  lay_past_the_card(first, cards, reserve, share);
  EXPECT_EQ(of("90GiB", nullptr, false, &share), Parts(75, 15)) << "it says the whole again";
  EXPECT_EQ(of("20GiB", nullptr, false, &share), Parts(20, 0));
  EXPECT_EQ(of(nullptr, "7GiB", false, &share), Parts(75, 7));
  EXPECT_EQ(of(nullptr, nullptr, false, &share), Parts(75, 25));
}

TEST(ShareRequests, ANewNameMustBeACdiDeviceName) {
  for (const char* bad : {"_a", "a_", "a-", "a."}) {
    ShareRequest o = order();
    o.name = bad;
    const auto share = made(o);
    ASSERT_FALSE(share) << bad;
    EXPECT_EQ(share.error().message,
              "'" + std::string(bad) + "' cannot name a new share: it is not a valid name of a CDI device");
  }
  ShareRequest o = order();
  o.name = "0.a_b-9";
  EXPECT_TRUE(made(o));
  tenancy::Share old = *made(o);
  old.name = "old_";
  EXPECT_TRUE(made(order(), &old)) << "one that exists is changed as before";
}

TEST(ShareRequests, ASlowLookUpDoesNotMakeANameUnknown) {
  ShareRequest o = order();
  o.users = {{"bob", "slow"}};
  EXPECT_EQ(made(o).error().code, ErrorCode::busy);
  o.users = {{"bob", "1003"}};
  EXPECT_EQ(made(o)->users, (std::vector<std::uint32_t>{1002, 1003}));
}

TEST(ShareRequests, AGpuThatDoesNotAnswerIsNamedByNumber) {
  auto gpus = two_gpus();
  gpus[1] = {};
  gpus[1].index = 1;
  gpus[1].model = "does not answer: GPU is lost";
  ShareRequest o;
  o.name = "alice";
  o.gpu = "1";
  EXPECT_EQ(share_of(o, nullptr, gpus, kDirectory).error(),
            (Error{ErrorCode::unreachable, "GPU 1 does not answer: GPU is lost",
                   "name another one (gpu); what became of it: nvidia-smi and dmesg"}));
}

TEST(ShareRequests, ComputeIsThePromiseAndTheCeilingWithoutABurst) {
  ShareRequest o;
  o.gpu = "0,1";
  o.mem = "25%";
  o.compute = "30%";
  auto share = made(o);
  ASSERT_TRUE(share);
  ASSERT_EQ(share->devices.size(), 2u);
  EXPECT_EQ(share->devices[0].memory_limit_bytes, 20 * kGiB);
  EXPECT_EQ(share->devices[0].guarantee_ppm, 300'000u);
  EXPECT_EQ(share->devices[0].ceiling_ppm, 300'000u);
  o.burst = "80%";
  share = made(o);
  EXPECT_EQ(share->devices[1].guarantee_ppm, 300'000u);
  EXPECT_EQ(share->devices[1].ceiling_ppm, 800'000u);
}

TEST(ShareRequests, AResetBurstLeavesTheCeilingOfCompute) {
  ShareRequest o;
  o.gpu = "0";
  o.compute = "30%";
  o.burst = "80%";
  const auto before = made(o);
  ASSERT_TRUE(before);
  ShareRequest back;
  back.burst = "none";
  auto share = made(back, &*before);
  ASSERT_TRUE(share);
  EXPECT_EQ(share->devices[0].guarantee_ppm, 300'000u);
  EXPECT_EQ(share->devices[0].ceiling_ppm, 300'000u);
  back.compute = "none";
  share = made(back, &*before);
  EXPECT_EQ(share->devices[0].ceiling_ppm, ledger::kWholeGpu);
}

TEST(ShareRequests, AnUnnamedBurstStaysWhenThePromiseChanges) {
  const struct {
    std::optional<std::string> compute, burst;  // as it was made
    const char* set;
    std::uint32_t guarantee_percent, ceiling_percent;
  } cases[] = {
      {"50%", "80%", "10%", 10, 80},   {"30%", "50%", "none", 0, 50}, {"30%", {}, "10%", 10, 10},
      {"30%", {}, "none", 0, 100},     {{}, "50%", "20%", 20, 50},    {{}, {}, "20%", 20, 20},
      {"30%", "100%", "20%", 20, 100},
  };
  for (const auto& [compute, burst, set, guarantee, ceiling] : cases) {
    ShareRequest first;
    first.compute = compute;
    first.burst = burst;
    const auto before = made(first);
    ASSERT_TRUE(before);
    ShareRequest change;
    change.compute = set;
    const auto after = made(change, &*before);
    ASSERT_TRUE(after);
    EXPECT_EQ(after->devices[0].guarantee_ppm, guarantee * 10'000) << set;
    EXPECT_EQ(after->devices[0].ceiling_ppm, ceiling * 10'000) << set;
  }
}

TEST(ShareRequests, APromiseAboveAnUnnamedBurstIsRefused) {
  ShareRequest first, change;
  first.compute = "30%";
  first.burst = "50%";
  const auto before = made(first);
  ASSERT_TRUE(before);
  change.compute = "60%";
  EXPECT_EQ(made(change, &*before).error(),
            (Error{ErrorCode::usage,
                   "compute '60%' is more than the share's burst of 50 %, which stays where it is not named",
                   "name both: a burst at least as large, or the burst none, which makes compute the most too"}));
  change.burst = "none";
  EXPECT_EQ(made(change, &*before)->devices[0].ceiling_ppm, 600'000u);
}

TEST(ShareRequests, NoneResetsTheListsOfUsers) {
  ShareRequest first, change;
  first.users = {{"bob"}};
  first.groups = {{"7"}};
  const auto before = made(first);
  ASSERT_TRUE(before);
  change.users = change.groups = {{"none"}};
  const auto after = made(change, &*before);
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_TRUE(after->users.empty() && after->groups.empty());
  change.users = {{"none", "bob"}};
  EXPECT_EQ(made(change, &*before).error().message, "users 'none' is not known here");
}

TEST(ShareRequests, UnnamedSettingsOfAShareStay) {
  ShareRequest first;
  first.gpu = "0";
  first.mem = "8GiB";
  first.compute = "500m";
  first.users = {{"bob", "7"}};
  first.ttl = "2h";
  const auto before = made(first);
  ASSERT_TRUE(before);
  ShareRequest change;
  change.mem = "12GiB";
  auto after = made(change, &*before);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->devices[0].memory_limit_bytes, 12 * kGiB);
  EXPECT_EQ(after->devices[0].guarantee_ppm, 500'000u);
  EXPECT_EQ(after->users, (std::vector<std::uint32_t>{7, 1002}));
  EXPECT_EQ(after->ttl, std::chrono::hours(2));
  change.mem = "none";
  change.ttl = "none";
  after = made(change, &*before);
  EXPECT_FALSE(after->devices[0].memory_limit_bytes);
  EXPECT_FALSE(after->ttl);
}

TEST(ShareRequests, TflopsAreAPartOfTheCard) {
  ShareRequest o;
  o.gpu = "0";
  o.compute = "98.9TFLOPS";
  const auto share = made(o);
  ASSERT_TRUE(share);
  EXPECT_EQ(share->devices[0].guarantee_ppm, 100'000u);
  o.compute = "98900GFLOPS";
  EXPECT_EQ(made(o)->devices[0].guarantee_ppm, 100'000u);
  o.compute = "0.4945PFLOPS";
  EXPECT_NEAR(made(o)->devices[0].guarantee_ppm, 500'000, 1);
  for (const char* bad : {"40XFLOPS", "FLOPS", "TFLOPS", "-1TFLOPS", "1 TFLOPS"}) {
    o.compute = bad;
    ASSERT_FALSE(made(o)) << bad;
    EXPECT_TRUE(made(o).error().message.ends_with("is no amount of compute")) << made(o).error().message;
  }
  o.compute = "0.0001TFLOPS";
  ASSERT_FALSE(made(o));
  EXPECT_EQ(made(o).error().message, "compute '0.0001TFLOPS' is less than a millionth of GPU 0");
  EXPECT_TRUE(made(o).error().hint.starts_with("accepted: more, up to 989TFLOPS")) << made(o).error().hint;
}

TEST(ShareRequests, EachMistakeNamesWhatIsAccepted) {
  const struct {
    std::optional<std::string> ShareRequest::* field;
    const char *value, *message, *hint;
  } cases[] = {
      {&ShareRequest::name, "../x", "'../x' cannot name a share", "accepted: "},
      {&ShareRequest::gpu, "7", "gpu '7' ", "GPUs here: 0 (GPU-aaaa), 1 (GPU-bbbb)"},
      {&ShareRequest::mem, "8", "mem '8' ", "50% of the card, or none"},
      {&ShareRequest::mem, "8000", "mem '8000' ", "did you mean 8000MiB? accepted: "},
      {&ShareRequest::mem, "8589934592", "mem '8589934592' ", "did you mean 8589934592B? accepted: "},
      {&ShareRequest::compute, "0%", "compute '0%' is zero", "40TFLOPS, or none"},
      {&ShareRequest::compute, "40TFLOPS", "compute '40TFLOPS': what a NVIDIA Something computes is not in the table",
       "percentage"},
      {&ShareRequest::weight, "0", "weight '0' is no weight", "accepted: 1 to 1000"},
      {&ShareRequest::priority_class, "best", "class 'best' is not understood",
       "accepted: best-effort, normal, latency"},
      {&ShareRequest::ttl, "2", "ttl '2' is no length of time", "90s, 5m, 2h, 7d, or none"},
      {&ShareRequest::ttl, "0h", "ttl '0h' is zero", "90s"},
      {&ShareRequest::admit, "later", "admit 'later' is not understood", "accepted: now, ask"},
      {&ShareRequest::on_oom, "retry", "on_oom 'retry' is not understood",
       "accepted: fail, wait (30s), or wait=TIME of 1s to 1h"},
      {&ShareRequest::on_oom, "wait=2h", "on_oom 'wait=2h' is no time that an allocation may wait",
       "accepted: fail, wait (30s), or wait=TIME of 1s to 1h"},
      {&ShareRequest::on_oom, "wait=", "on_oom 'wait=' is no time that an allocation may wait",
       "accepted: fail, wait (30s), or wait=TIME of 1s to 1h"},
  };
  for (const auto& [field, value, message, hint] : cases) {
    ShareRequest o;
    o.*field = value;
    const auto share = made(o);
    ASSERT_FALSE(share) << value;
    EXPECT_TRUE(share.error().message.starts_with(message)) << share.error().message;
    EXPECT_TRUE(share.error().hint.contains(hint)) << share.error().hint;
  }
  ShareRequest o;
  o.users = {{"unknown-user"}};
  EXPECT_EQ(made(o).error().message, "users 'unknown-user' is not known here");
  o.users = {{"4294967294"}};
  EXPECT_TRUE(made(o));
  o.users = {{"4294967295"}};
  EXPECT_EQ(made(o).error().message, "users '4294967295' is not known here") << "no user has that number";
  o.users = std::vector<std::string>(256, "1");
  EXPECT_TRUE(made(o));
  o.users->emplace_back("1");
  EXPECT_EQ(made(o).error().message, "users '257 names' are too many");
  o = {};
  o.compute = "50%";
  o.burst = "30%";
  EXPECT_EQ(made(o).error().message, "burst '30%' is less than what compute promises");
}

TEST(ShareRequests, AMemoryLimitAboveTheCardIsLeftToAdmission) {
  ShareRequest o;
  o.gpu = "0";
  o.mem = "500GiB";
  EXPECT_TRUE(made(o));
}

TEST(ShareRequests, GpusGangAndFailPolicyCannotBeChanged) {
  const auto before = made(order());
  ShareRequest o;
  o.gpu = "0";
  EXPECT_EQ(made(o, &*before).error().code, ErrorCode::unsupported);
  o = {};
  o.fail_policy = "closed";
  EXPECT_EQ(made(o, &*before).error().code, ErrorCode::unsupported);
  o = {};
  o.gang = "ranks";
  EXPECT_EQ(made(o, &*before).error(),
            (Error{ErrorCode::unsupported, "the gang of a share cannot be changed", "remove it and create it again"}));
  o = {};
  o.isolation = "mps";
  EXPECT_EQ(made(o, &*before).error().code, ErrorCode::unsupported);
}

TEST(ShareRequests, IsolationMpsNeedsExactlyOneGpu) {
  ShareRequest o = order();
  EXPECT_EQ(made(o)->isolation, tenancy::Isolation::hook);
  o.gpu = "0";
  o.isolation = "mps";
  EXPECT_EQ(made(o)->isolation, tenancy::Isolation::mps);
  o.isolation = "timeslice";
  EXPECT_EQ(made(o)->isolation, tenancy::Isolation::timeslice);
  o.isolation = "mig";
  EXPECT_EQ(made(o).error(),
            (Error{ErrorCode::usage, "isolation 'mig' is not understood", "accepted: hook, mps, timeslice"}));
  o.isolation = "mps";
  o.gpu = "all";
  EXPECT_EQ(made(o).error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace headgate::node
