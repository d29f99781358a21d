// A share of stream-ordered memory on the simulated card: its tenant, its ledger, and the card's truth.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "guest/ledger/account.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/ledger/slot.hpp"
#include "limiter_run.hpp"
#include "sim/node.hpp"
#include "sim/truth.hpp"

namespace headgate::e2e {

inline constexpr std::uint64_t kMiB = 1 << 20, kGranule = 32 * kMiB, kContext = 64 * kMiB;  // "tiny" card, 2 GiB

// 16 granules and one context.
inline constexpr const char* kSixteen = "576MiB";

inline Tenant on_tiny(const std::string& limit) {
  Tenant tenant;
  tenant.driver = Driver::simulated;
  tenant.program = "limiter_pool";
  tenant.environment = {{"HEADGATE_SIM_PROFILE", "tiny"}, {"HEADGATE_MEM", limit}, {"HEADGATE_SHARE", "pools"}};
  return tenant;
}

inline sim::DeviceTruth truth(const Runtime& runtime, std::uint32_t device = 0) {
  const auto read = sim::read_truth(runtime.path() + "/run-node");
  EXPECT_TRUE(read) << read.error().message;
  return read ? read->devices.at(device) : sim::DeviceTruth{};
}

inline std::uint64_t really_held(const Runtime& runtime, std::uint32_t device = 0) {
  std::uint64_t sum = 0;
  for (const sim::ProcessTruth& process : truth(runtime, device).processes) sum += process.bytes;
  return sum;
}

template <typename Condition>
bool comes_true(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

struct Owner {
  ledger::SharePages pages;
  explicit Owner(const Runtime& runtime) {
    EXPECT_FALSE(ledger::open_share((runtime.path() + "/run").c_str(), "pools", ledger::Access::owner, pages));
  }
  ~Owner() { ledger::close_pages(pages); }
  [[nodiscard]] std::uint64_t used(std::uint32_t device = 0) const {
    ledger::reap_dead(*pages.usage);
    return ledger::used_bytes(*pages.usage, device);
  }
  // Returns the residual of all its processes.
  [[nodiscard]] std::uint64_t residual(std::uint32_t device = 0) const {
    std::uint64_t sum = 0;
    for (const ledger::Slot& slot : pages.usage->slots) sum += slot.devices[device].residual_bytes.load();
    return sum;
  }
};

// A tenant that gets its commands one by one.
struct Led {
  const Runtime& runtime;
  Runtime::Running running;
  Led(const Runtime& where, const Tenant& tenant) : runtime(where), running(where.start(tenant, {"-"})) {
    EXPECT_EQ(running.next_line(), "ready: 0");
  }
  std::string does(const std::string& word) {
    running.say(word + "\n");
    const std::string line = running.next_line();
    return line.starts_with(word + ": ") ? line.substr(word.size() + 2) : line;
  }
};

inline std::string bytes(const char* verb, std::uint64_t count) {
  return std::string(verb) + ":" + std::to_string(count);
}

#define EXPECT_EXACT(runtime, owner, expected)       \
  do {                                               \
    EXPECT_EQ(really_held(runtime), (expected));     \
    EXPECT_EQ((owner).used(), really_held(runtime)); \
  } while (false)

struct Race {
  std::uint64_t ledger_peak = 0, card_peak = 0;
  unsigned long done = 0, refused = 0;
};

// Eight tenants race for one share of 1 GiB, half of which is used by their contexts.
inline Race race(const std::string& what) {
  const Runtime runtime;
  std::vector<std::unique_ptr<Led>> tenants;
  for (int i = 0; i < 8; ++i) tenants.push_back(std::make_unique<Led>(runtime, on_tiny("1GiB")));
  for (int i = 0; i < 2; ++i) {  // contexts are counted from here on
    for (auto& each : tenants) EXPECT_EQ(each->does("info"), "0");
  }
  const Owner owner(runtime);
  Race race;
  std::jthread watcher([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) race.card_peak = std::max(race.card_peak, truth(runtime).used_bytes);
  });
  for (auto& each : tenants) each->running.say(what + "\n");
  for (auto& each : tenants) {
    const std::string told = each->running.next_line();
    unsigned long done = 0, refused = 0;
    EXPECT_EQ(std::sscanf(told.c_str(), "done %lu refused %lu", &done, &refused), 2) << told;
    EXPECT_EQ(each->running.next_line(), what + ": 0");
    race.done += done;
    race.refused += refused;
  }
  watcher.request_stop();
  watcher.join();
  race.ledger_peak = ledger::peak_bytes(*owner.pages.usage, 0);
  EXPECT_EXACT(runtime, owner, 0u);
  EXPECT_GT(race.done, 0u);
  EXPECT_GT(race.refused, 0u);
  return race;
}

}  // namespace headgate::e2e
