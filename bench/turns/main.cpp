// How near real processes come to the turns that the arbiter means, on the simulated node, with the machine's own lateness beside.
//
// Each row runs for so many seconds (the first argument; 10) after all of its tenants are at work. All of it counts: no row is run
// again, nothing is trimmed. What a tenant got is the simulator's truth. "of it" is the split of what all of them had: what the
// gates decide. "used" falls where the machine keeps the tenants from asking.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "e2e/arbiter_node.hpp"

namespace {

using headgate::e2e::ArbiterNode;
using headgate::e2e::ShareWish;

struct Tenant {
  ShareWish wish;
  std::vector<std::string> words;
};
struct Row {
  const char* name;
  std::vector<Tenant> tenants;
  bool judged = true;  // by its split
};

// Wake-ups after 1 ms, as every waiting thread here has them.
class Noise {
 public:
  Noise() : thread_([this] { run(); }) {}
  ~Noise() { end(); }
  void print() {
    end();
    std::ranges::sort(late_us_);
    const auto at = [&](double part) {
      return late_us_[static_cast<std::size_t>(part * static_cast<double>(late_us_.size() - 1))];
    };
    std::printf(
        "  noise: a thread that sleeps 1 ms is late by %.0f us (half), %.0f us (1 in 100), %.0f us (worst of %zu)\n",
        at(0.5), at(0.99), at(1), late_us_.size());
  }

 private:
  static double now_us() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
  }
  void run() {
    while (!ending_) {
      const double start = now_us();
      const timespec millisecond{0, 1'000'000};
      ::nanosleep(&millisecond, nullptr);
      late_us_.push_back(now_us() - start - 1000);
    }
  }
  void end() {
    ending_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::atomic<bool> ending_{false};
  std::vector<double> late_us_;
  std::thread thread_;
};

Tenant full(std::uint32_t weight, const std::string& kernels) { return {{.weight = weight}, {"--kernels=" + kernels}}; }
Tenant sparse() { return {{}, {"--kernels=50us", "--sync=each", "--gap=200us"}}; }

std::vector<Row> rows() {
  std::vector<Row> all = {
      {"1:1 of 200 us", {full(100, "200us"), full(100, "200us")}},
      {"3:7 of 200 us", {full(300, "200us"), full(700, "200us")}},
      {"1:9 of 200 us", {full(100, "200us"), full(900, "200us")}},
      {"1:1, 20 us beside 5 ms", {full(100, "20us"), full(100, "5ms")}},
      {"1:1, graphs of 10 beside eager, 100 us", {{{}, {"--kernels=100us", "--graph=10"}}, full(100, "100us")}},
      {"1:2:4:8 of 200 us", {full(100, "200us"), full(200, "200us"), full(400, "200us"), full(800, "200us")}},
      {"20 % busy (50 us, 200 us pause) beside 100 us", {sparse(), full(100, "100us")}, false},
      {"two such", {sparse(), sparse()}, false},
      {"one alone, 200 us", {full(100, "200us")}, false},
      {"latency (200 us each 5 ms) beside 1 ms",
       {{{.priority_class = 2}, {"--kernels=200us", "--sync=each", "--gap=4800us"}}, full(100, "1ms")},
       false},
  };
  Row eight{"8 equal, 200 us", {}};
  for (int i = 0; i < 8; ++i) eight.tenants.push_back(full(100, "200us"));
  all.push_back(std::move(eight));
  return all;
}

void run(const Row& row, int seconds) {
  ArbiterNode node;
  for (std::size_t i = 0; i < row.tenants.size(); ++i) node.share("s" + std::to_string(i), row.tenants[i].wish);
  node.start();
  for (std::size_t i = 0; i < row.tenants.size(); ++i) node.load("s" + std::to_string(i), row.tenants[i].words);
  node.all_at_work();
  Noise noise;
  const double cpu = node.arbiter_cpu_seconds();
  const auto had = node.split(seconds * 1000);
  const double busy = node.arbiter_cpu_seconds() - cpu, used = std::accumulate(had.begin(), had.end(), 0.0);
  double weights = 0, worst = 0, squares = 0;
  for (const Tenant& tenant : row.tenants) weights += tenant.wish.weight;
  std::printf("%s\n ", row.name);
  for (std::size_t i = 0; i < had.size(); ++i) {
    const double asked = 100.0 * row.tenants[i].wish.weight / weights, got = 100 * had[i] / used;
    worst = std::max(worst, std::abs(got - asked));
    squares += had[i] * had[i];
    if (row.judged) std::printf(" %.2f (asked %.2f)", got, asked);
    else std::printf(" %.2f", had[i]);
  }
  if (row.judged) std::printf(" %% of it; worst %.2f points off;", worst);
  else std::printf(" %% of the GPU;");
  if (had.size() == 8) std::printf(" Jain %.4f;", used * used / (8 * squares));
  std::printf(" used %.1f %%; arbiter %.2f %% of a core\n", used, 100 * busy / seconds);
  noise.print();
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 10;
  for (const Row& row : rows()) run(row, seconds);
}
