#include "guest/ledger/gpu_page.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "guest/ledger/compute_account.hpp"

namespace headgate::ledger {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

// Simulates a GPU that runs one context at a time, 2 ms each while several have work, in steps of 1 us. A context's
// work comes in brackets of GPU time with rests in between.
struct Load {
  std::uint64_t share;
  std::function<std::int64_t(std::mt19937_64&)> work_us, rest_us;
};
struct Context {
  Load load;
  Seat seat{};
  std::int64_t left_us = 0, wakes_us = 0, begun_us = -1;
  std::int64_t truth_us = 0, charged_ns = 0, given_back_ns = 0;
};
struct Bracket {
  std::size_t context;
  std::int64_t from_us, to_us;
};

auto always(std::int64_t us) {
  return [us](std::mt19937_64&) { return us; };
}
auto lognormal(double us, double sigma) {
  return [us, sigma](std::mt19937_64& random) {
    return std::max<std::int64_t>(1, std::llround(us * std::exp(sigma * std::normal_distribution<double>()(random))));
  };
}

struct Result {
  std::vector<double> truth, charged, raw;  // percent of the GPU, by share 1, 2, ...
};

Result run(const std::vector<Load>& loads, std::size_t shares, std::int64_t slice_us = 2'000, bool shuffled = false) {
  const auto page = std::make_unique<GpuPage>();
  std::vector<std::unique_ptr<ComputeAccount>> accounts;
  for (std::size_t s = 0; s < shares; ++s) accounts.push_back(std::make_unique<ComputeAccount>());
  std::vector<Context> contexts;
  for (const Load& load : loads) {
    contexts.push_back({.load = load});
    contexts.back().seat = {.page = page.get(), .owner = contexts.size(), .share = load.share};
  }
  std::mt19937_64 random(3);
  std::vector<Bracket> settled;
  constexpr std::int64_t kStartUs = 50'000'000, kTotalUs = 4'000'000;
  std::size_t holder = 0;
  std::int64_t used_us = 0;
  const auto settle = [&](std::int64_t now_us) {
    if (shuffled) std::shuffle(settled.begin(), settled.end(), random);
    for (const Bracket& bracket : settled) {
      Context& c = contexts[bracket.context];
      ComputeAccount& account = *accounts[c.load.share - 1];
      c.charged_ns += cover(account, bracket.from_us * kUs, bracket.to_us * kUs);
      mark_seat(c.seat, {bracket.from_us * kUs, bracket.to_us * kUs, bracket.from_us * kUs, true}, now_us * kUs);
      c.given_back_ns += neighbours_ns(c.seat, account, now_us * kUs);
    }
    settled.clear();
  };
  for (std::int64_t now = kStartUs; now < kStartUs + kTotalUs; ++now) {
    for (Context& c : contexts)
      if (c.left_us == 0 && c.wakes_us <= now) c.left_us = c.load.work_us(random);
    if (used_us >= slice_us || contexts[holder].left_us == 0) {
      for (std::size_t step = 1; step <= contexts.size(); ++step)
        if (const std::size_t next = (holder + step) % contexts.size(); contexts[next].left_us > 0) {
          holder = next;
          break;
        }
      used_us = 0;
    }
    Context& c = contexts[holder];
    if (c.left_us > 0) {
      if (c.begun_us < 0) c.begun_us = now;
      ++c.truth_us;
      ++used_us;
      if (--c.left_us == 0) {
        settled.push_back({holder, c.begun_us, now + 1});
        c.begun_us = -1;
        c.wakes_us = now + 1 + c.load.rest_us(random);
      }
    }
    if (now % 300 == 0) settle(now);
  }
  settle(kStartUs + kTotalUs);
  for (int i = 0; i < 40; ++i)
    for (Context& c : contexts)
      c.given_back_ns += neighbours_ns(c.seat, *accounts[c.load.share - 1], (kStartUs + kTotalUs + i * 1'000) * kUs);
  Result result{std::vector<double>(shares), std::vector<double>(shares), std::vector<double>(shares)};
  for (const Context& c : contexts) {
    const std::size_t s = c.load.share - 1;
    result.truth[s] += 100.0 * static_cast<double>(c.truth_us) / kTotalUs;
    result.raw[s] += 100.0 * static_cast<double>(c.charged_ns) / 1e3 / kTotalUs;
    result.charged[s] += 100.0 * static_cast<double>(c.charged_ns - c.given_back_ns) / 1e3 / kTotalUs;
  }
  for (std::size_t s = 0; s < shares; ++s)
    std::printf("share %zu: held %.3f %%, charged %.3f %%, without neighbours %.3f %%\n", s + 1, result.truth[s],
                result.charged[s], result.raw[s]);
  return result;
}

void expect_charged_what_was_held(const Result& result, double points) {
  for (std::size_t s = 0; s < result.truth.size(); ++s) EXPECT_NEAR(result.charged[s], result.truth[s], points);
}

TEST(GpuPage, TwoBusySharesAreEachChargedTheirHalf) {
  for (const std::int64_t us : {200, 1'000, 5'000})
    expect_charged_what_was_held(run({{1, always(us), always(0)}, {2, always(us), always(0)}}, 2), 0.1);
}
TEST(GpuPage, ShortAndLongWorkAreEachChargedWhatTheyHeld) {
  expect_charged_what_was_held(run({{1, always(50), always(150)}, {2, always(5'000), always(5'000)}}, 2), 0.2);
  expect_charged_what_was_held(run({{1, always(200), always(600)}, {2, lognormal(200, 0.8), always(200)}}, 2), 0.2);
  expect_charged_what_was_held(run({{1, always(1'000), always(3'000)}, {2, lognormal(1'000, 1.0), always(900)}}, 2),
                               0.2);
}
TEST(GpuPage, AShareOfTwoProcessesHoldsTwoSlicesOfThree) {
  const Result result =
      run({{1, always(1'000), always(0)}, {1, always(1'000), always(0)}, {2, always(1'000), always(0)}}, 2);
  EXPECT_NEAR(result.truth[0], 66.7, 0.1);
  expect_charged_what_was_held(result, 0.1);
}
TEST(GpuPage, EightSharesAreEachChargedTheirPart) {
  std::vector<Load> loads;
  for (std::uint64_t s = 1; s <= 8; ++s)
    loads.push_back({s, lognormal(100.0 * static_cast<double>(s), 0.5), lognormal(700, 0.5)});
  expect_charged_what_was_held(run(loads, 8), 0.3);
}
TEST(GpuPage, TheOrderOfSettlementDoesNotMatter) {
  expect_charged_what_was_held(
      run({{1, always(200), always(600)}, {2, lognormal(200, 0.8), always(200)}}, 2, 2'000, true), 0.2);
}
TEST(GpuPage, ALoneShareGetsNothingBack) {
  const Result result = run({{1, always(700), always(300)}, {1, always(300), always(200)}}, 1);
  EXPECT_EQ(result.charged[0], result.raw[0]);
}
TEST(GpuPage, AnotherSliceLengthCostsLessThanNoDivision) {
  const Result result = run({{1, always(200), always(600)}, {2, lognormal(1'000, 0.8), always(200)}}, 2, 1'000);
  for (std::size_t s = 0; s < 2; ++s)
    EXPECT_LE(std::abs(result.charged[s] - result.truth[s]), std::abs(result.raw[s] - result.truth[s]) / 2);
}

TEST(GpuPage, OneOfSeveralProcessesGivesBack) {
  const auto page = std::make_unique<GpuPage>();
  const auto account = std::make_unique<ComputeAccount>();
  Seat ours{.page = page.get(), .owner = 1, .share = 1}, theirs{.page = page.get(), .owner = 2, .share = 2};
  constexpr std::int64_t kNow = 10 * kSecond;
  mark_seat(theirs, {kNow, kNow + kMs, kNow, true}, kNow + kMs);
  mark_seat(ours, {kNow - 100 * kUs, kNow + kMs}, kNow + kMs);
  std::atomic<std::int64_t> sum{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] { sum += neighbours_ns(ours, *account, kNow + kReplayLagNs + 2 * kMs); });
  }
  EXPECT_EQ(sum.load(), kMs);
  EXPECT_EQ(neighbours_ns(ours, *account, kNow + kReplayLagNs + 3 * kMs), 0);
}

// Two contexts of two shares have work at once; each account is charged for all of it and replays up to 8 ms ago.
TEST(GpuPage, HeldTimeEndsWhereOthersPartIsKnown) {
  const auto page = std::make_unique<GpuPage>();
  Seat seats[] = {{.page = page.get(), .owner = 1, .share = 1}, {.page = page.get(), .owner = 2, .share = 2}};
  const auto accounts = std::make_unique<ComputeAccount[]>(2);
  const auto charge = [&](std::size_t i, std::int64_t from_ns, std::int64_t to_ns) {
    mark_seat(seats[i], {from_ns, to_ns}, to_ns);
    accounts[i].held_ns.fetch_add(static_cast<std::uint64_t>(cover(accounts[i], from_ns, to_ns)));
  };
  const auto give_back = [&](std::size_t i, std::int64_t now_ns) {
    accounts[i].held_ns.fetch_sub(static_cast<std::uint64_t>(neighbours_ns(seats[i], accounts[i], now_ns, true)));
  };
  std::int64_t now_ns = 10 * kSecond;
  for (int i = 0; i < 100; ++i, now_ns += kMs)
    for (const std::size_t each : {0, 1}) charge(each, now_ns, now_ns + kMs), give_back(each, now_ns + kMs);
  for (const std::size_t each : {0, 1}) {
    const HeldTime first = held_time(accounts[each], now_ns);
    EXPECT_NEAR(static_cast<double>(now_ns - first.until_ns), static_cast<double>(kReplayLagNs), 0.1e6);
    EXPECT_NEAR(static_cast<double>(first.held_ns), static_cast<double>(first.until_ns - 10 * kSecond) / 2, 1.1e6);
    EXPECT_GT(static_cast<std::int64_t>(accounts[each].held_ns) - first.held_ns, 7 * kMs) << "not shared out yet";
  }
  // No more work: all of it is known once it is old enough.
  now_ns += 20 * kMs;
  for (const std::size_t each : {0, 1}) give_back(each, now_ns);
  const HeldTime first = held_time(accounts[0], now_ns), second = held_time(accounts[1], now_ns);
  EXPECT_NEAR(static_cast<double>(first.held_ns + second.held_ns), 100e6, 0.1e6);
  EXPECT_GT(first.until_ns, now_ns - 10 * kMs);
}

// A share alone replays nothing. Any process of the share can write any words.
TEST(GpuPage, HeldTimeOfAnyAccountIsThatOfLately) {
  const auto account = std::make_unique<ComputeAccount>();
  const std::int64_t now_ns = 10 * kSecond;
  account->held_ns = static_cast<std::uint64_t>(cover(*account, now_ns - 50 * kMs, now_ns));
  const HeldTime alone = held_time(*account, now_ns);
  EXPECT_NEAR(static_cast<double>(now_ns - alone.until_ns), 18e6, 0.1e6);
  EXPECT_NEAR(static_cast<double>(alone.held_ns), 32e6, 0.1e6);
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    account->slices = random();
    account->held_ns = random();
    const HeldTime time = held_time(*account, now_ns);
    EXPECT_GE(time.held_ns, 0);
    EXPECT_LE(std::abs(now_ns - time.until_ns), 50 * kMs);
  }
}

// For 12 ms one context has work; another one, which may be of the same share, has 4 ms of it from the fourth on.
TEST(GpuPage, TellsWhatOthersHadOfOneContextsTime) {
  const auto board = std::make_unique<GpuPage>();
  Seat one{.page = board.get(), .board = board.get(), .owner = 1, .share = 1}, other = one;
  other.owner = 2;
  const std::int64_t at_ns = kSecond;
  mark_seat(one, {at_ns, at_ns + 12 * kMs, at_ns, true}, at_ns);
  mark_seat(other, {at_ns + 4 * kMs, at_ns + 10 * kMs, at_ns + 4 * kMs, true}, at_ns);
  SliceReplay replay;
  const auto near_ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
  EXPECT_NEAR(near_ms(others_on_board_ns(one, replay, at_ns, at_ns + 12 * kMs)), 4, 0.1);
  replay = {};
  EXPECT_NEAR(near_ms(others_on_board_ns(one, replay, at_ns, at_ns + 7 * kMs)), 2, 0.1);
  EXPECT_NEAR(near_ms(others_on_board_ns(one, replay, at_ns + 7 * kMs, at_ns + 12 * kMs)), 2, 0.1) << "goes on";
  // What others had just before it began, while it waited, is no part of it: time is looked at in steps of 48 us.
  const std::int64_t began_ns = at_ns + 20 * kMs + 30 * kUs;
  mark_seat(other, {began_ns - 5 * kMs, began_ns, began_ns - 5 * kMs, true}, at_ns);
  mark_seat(one, {began_ns - 5 * kMs, began_ns + 500 * kUs, began_ns, true}, at_ns);
  replay = {};
  EXPECT_EQ(others_on_board_ns(one, replay, began_ns, began_ns + 500 * kUs), 0);
  one.owner = 3;
  EXPECT_EQ(others_on_board_ns(one, replay, at_ns, at_ns + 12 * kMs), -1) << "not on the board";
}

TEST(GpuPage, ASeatIsReusedOnlyLongAfterItsContextHasGone) {
  const auto page = std::make_unique<GpuPage>();
  std::vector<Seat> seats;
  std::int64_t now = 100 * kSecond;
  for (std::uint64_t i = 1; i <= kMaxSeats; ++i) {
    seats.push_back({.page = page.get(), .owner = i, .share = i});
    mark_seat(seats.back(), {now, now + kMs}, now);
    EXPECT_LT(seats.back().index, kMaxSeats);
  }
  Seat late{.page = page.get(), .owner = 1'000, .share = 1'000};
  mark_seat(late, {now, now + kMs}, now + kSeatStaleNs - 1);
  EXPECT_EQ(late.index, kMaxSeats);
  mark_seat(seats[7], {now, now + kMs}, now + kSeatStaleNs);
  mark_seat(late, {now, now + kMs}, now + kSeatStaleNs);
  EXPECT_EQ(late.index, 0u);
  // A context that lost its seat finds another.
  mark_seat(seats[0], {now, now + kMs}, now + kSeatStaleNs);
  EXPECT_EQ(seats[0].index, 1u);
  leave_seat(late);
  EXPECT_EQ(page->seats[0].owner.load(), 0u);
  // After a reboot the clock starts again.
  Seat young{.page = page.get(), .owner = 2'000, .share = 1};
  mark_seat(young, {kSecond, kSecond + kMs}, kSecond);
  EXPECT_LT(young.index, kMaxSeats);
}

TEST(GpuPage, RandomBitsGiveBackAtMostTheTimeConsidered) {
  const auto page = std::make_unique<GpuPage>();
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    auto* words = reinterpret_cast<std::uint64_t*>(page.get());
    for (std::size_t i = 0; i < sizeof(GpuPage) / 8; ++i) words[i] = random();
    const auto account = std::make_unique<ComputeAccount>();
    account->slices.store(random());
    const std::int64_t now = 20 * kSecond;
    for (GpuSeat& seat : page->seats)
      if (random() % 2 == 0) seat.seen_ns.store(now);
    Seat ours{.page = page.get(), .owner = 1, .share = page->seats[random() % kMaxSeats].share.load()};
    mark_seat(ours, {now - 40 * kMs, now}, now);
    const std::int64_t back = neighbours_ns(ours, *account, now);
    EXPECT_GE(back, 0);
    EXPECT_LE(back, 512 * kCoverageNs * kCoverageBits);
  }
}

class GpuPageFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "headgate-gpu-page-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(base_); }
  std::string base_;
};

TEST_F(GpuPageFile, IsCreatedOnceAndShared) {
  std::vector<GpuPage*> pages(8, nullptr);
  {
    std::vector<std::jthread> makers;
    for (GpuPage*& page : pages)
      makers.emplace_back([&] { EXPECT_FALSE(open_gpu_page(base_.c_str(), "GPU-1", page)); });
  }
  pages[0]->seats[3].share.store(77);
  for (const GpuPage* page : pages) EXPECT_EQ(page->seats[3].share.load(), 77u);
  struct stat status{};
  ASSERT_EQ(::stat((base_ + "/gpus/GPU-1").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(base_ + "/gpus"), {}), 1);
}

TEST_F(GpuPageFile, IsRefusedIfItIsNone) {
  GpuPage* page = nullptr;
  EXPECT_EQ(open_gpu_page(base_.c_str(), "../escape", page).error, PageError::bad_uuid);
  EXPECT_EQ(open_gpu_page(base_.c_str(), "", page).error, PageError::bad_uuid);
  ASSERT_FALSE(open_gpu_page(base_.c_str(), "GPU-1", page));
  const std::string path = base_ + "/gpus/GPU-1";
  page->header.version = kGpuPageVersion + 1;
  EXPECT_EQ(open_gpu_page(base_.c_str(), "GPU-1", page).error, PageError::pages_newer);
  page->header.version = kGpuPageVersion;
  page->header.magic = 1;
  EXPECT_EQ(open_gpu_page(base_.c_str(), "GPU-1", page).error, PageError::wrong_magic);
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  page = nullptr;
  EXPECT_EQ(open_gpu_page(base_.c_str(), "GPU-1", page).error, PageError::wrong_size);
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/etc/passwd", path);
  EXPECT_EQ(open_gpu_page(base_.c_str(), "GPU-1", page).error, PageError::symbolic_link);
  EXPECT_EQ(page, nullptr);
}

}  // namespace
}  // namespace headgate::ledger
