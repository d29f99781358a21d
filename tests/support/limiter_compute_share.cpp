#include "limiter_compute_share.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

#include "guest/ledger/slot.hpp"

namespace headgate::e2e {
namespace {

constexpr const char* kShare = "compute";
constexpr std::chrono::seconds kSettled{10};

}  // namespace

ComputeShare::ComputeShare(std::string compute, std::string profile, std::string program)
    : compute_(std::move(compute)), profile_(std::move(profile)), program_(std::move(program)) {}

ComputeShare::~ComputeShare() {
  if (pages_.usage != nullptr) ledger::close_pages(pages_);
}

std::unique_ptr<Program> ComputeShare::start(std::initializer_list<std::string> words, bool limited,
                                             std::map<std::string, std::string> extra) const {
  std::vector<std::string> all = {HEADGATE_TENANTS "/" + program_};
  all.insert(all.end(), words);
  std::map<std::string, std::string>& variables = extra;
  variables.insert({{"LD_LIBRARY_PATH", HEADGATE_SIM_LIBRARIES},
                    {"HEADGATE_SIM_DIR", directory_.path() + "/node"},
                    {"HEADGATE_SIM_PROFILE", profile_}});
  if (limited)
    variables.insert({{"LD_PRELOAD", HEADGATE_LIMITER},
                      {"HEADGATE_RUNTIME_DIR", directory_.path() + "/run"},
                      {"HEADGATE_SHARE", kShare},
                      {"HEADGATE_MEM", "1GiB"},
                      {"HEADGATE_COMPUTE", compute_},
                      {"HEADGATE_LOG", "warn"}});
  return std::make_unique<Program>(all, variables);
}

std::string ComputeShare::run(std::initializer_list<std::string> words, bool limited) const {
  const auto program = start(words, limited);
  program->close_stdin();
  std::string said = rest_of(*program);
  EXPECT_EQ(program->wait(), 0) << said;
  EXPECT_EQ(program->errors(), "");
  return said;
}

bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::usleep(500);
  }
  return true;
}

std::string rest_of(Program& program) {
  std::string all;
  for (std::string line; !(line = program.line()).empty();) all += line + "\n";
  return all;
}

ledger::SharePages& ComputeShare::pages() {
  if (pages_.usage == nullptr) {
    const ledger::PageFault bad =
        ledger::open_share((directory_.path() + "/run").c_str(), kShare, ledger::Access::owner, pages_);
    if (bad) throw std::runtime_error("the share has no pages");
  }
  return pages_;
}

std::uint64_t ComputeShare::metered_launches(std::uint64_t at_least) {
  const auto deadline = std::chrono::steady_clock::now() + kSettled;
  std::uint64_t sum = 0;
  do {
    sum = 0;
    for (const ledger::Slot& slot : pages().usage->slots) sum += slot.devices[0].launches.load();
    if (sum >= at_least) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (std::chrono::steady_clock::now() < deadline);
  return sum;
}

void ComputeShare::expect_metered(std::uint64_t launches) { EXPECT_EQ(metered_launches(launches), launches); }

void ComputeShare::expect_delays_of(std::uint64_t launches) {
  const auto deadline = std::chrono::steady_clock::now() + kSettled;
  const ledger::LaunchDelays& delays = account().delays;
  std::uint64_t waited = 0;
  for (const auto& bucket : delays.waited) waited += bucket.load();
  EXPECT_EQ(waited, account().throttled_launches.load());
  // Its last launches are counted when their bracket closes.
  while (delays.prompt.load() + waited < launches && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(delays.prompt.load() + waited, launches);
}

std::uint32_t ComputeShare::live_slots() {
  ledger::reap_dead(*pages().usage);
  return ledger::live_slots(*pages().usage);
}

sim::DeviceTruth ComputeShare::truth(unsigned device) const {
  auto read = sim::read_truth(directory_.path() + "/node");
  if (!read) throw std::runtime_error(read.error().message);
  return read->devices.at(device);
}

std::pair<double, double> ComputeShare::look() const {
  auto read = sim::read_truth(directory_.path() + "/node");
  if (!read) throw std::runtime_error(read.error().message);
  return {static_cast<double>(read->now_ns), static_cast<double>(read->devices.at(0).busy_ns)};
}

void ComputeShare::expect_launched(Program& program) {
  const std::string line = program.line();
  unsigned long long stalled_ns = 0;
  ASSERT_EQ(std::sscanf(line.c_str(), "launched, stalled %llu ns", &stalled_ns), 1) << line;
  stalled_ns_ += static_cast<double>(stalled_ns);
}

// If the machine does not run the program for this long, brackets get longer. A charge beyond that is a fault.
constexpr double kHeldUpNs = 200e6;

void ComputeShare::expect_exact(unsigned device) {
  double held = 0, estimated = 0, busy = 0, brackets = 0, allowed = 0;
  const auto deadline = std::chrono::steady_clock::now() + kSettled;
  do {
    const sim::DeviceTruth real = truth(device);
    busy = static_cast<double>(real.busy_ns);
    brackets = 0;
    for (const sim::ProcessTruth& process : real.processes) brackets += static_cast<double>(process.records) / 2;
    estimated = static_cast<double>(account(device).estimated_ns.load());
    held = static_cast<double>(account(device).held_ns.load());
    allowed = std::max(0.01 * busy, 5'000 * brackets) + estimated + stalled_ns_;
    if (std::abs(held - busy) <= allowed) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (std::chrono::steady_clock::now() < deadline);
  EXPECT_GE(held, busy - allowed) << "brackets " << brackets << ", estimated " << estimated << ", stalled "
                                  << stalled_ns_;
  EXPECT_LE(held, busy + allowed + kHeldUpNs) << "brackets " << brackets;
}

}  // namespace headgate::e2e
