#include "noise.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <sstream>

namespace headgate::bench {

namespace {

constexpr std::int64_t kPeriodNs = 1'000'000;
constexpr std::int64_t kBucketNs = 10'000'000;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::string cpu_line() {
  std::ifstream stat("/proc/stat");
  std::string line;
  std::getline(stat, line);
  return line;
}

}  // namespace

std::int64_t longest_gap_ns() {
  const std::int64_t end = now_ns() + 1'000'000'000;
  std::int64_t last = now_ns(), longest = 0;
  while (last < end) {
    const std::int64_t now = now_ns();
    longest = std::max(longest, now - last);
    last = now;
  }
  return longest;
}

CpuParts cpu_parts(const std::string& before, const std::string& after) {
  // Fields: user nice system idle iowait irq softirq steal (user already includes guest time).
  std::array<std::array<double, 8>, 2> fields{};
  const std::array<const std::string*, 2> lines{&before, &after};
  for (std::size_t i = 0; i < 2; ++i) {
    std::istringstream words(*lines[i]);
    std::string name;
    words >> name;
    for (double& field : fields[i]) {
      words >> field;
    }
    if (name != "cpu" || !words) {
      return {};
    }
  }
  double total = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    total += fields[1][i] - fields[0][i];
  }
  if (total <= 0) {
    return {};
  }
  const double idle = fields[1][3] - fields[0][3] + fields[1][4] - fields[0][4];
  return {.steal_percent = 100 * (fields[1][7] - fields[0][7]) / total, .busy_percent = 100 * (total - idle) / total};
}

std::int64_t NoiseSampler::Late::at(std::int64_t bucket) const {
  const std::int64_t index = bucket - first_bucket;
  return index < 0 || index >= static_cast<std::int64_t>(ns.size()) ? 0 : ns[static_cast<std::size_t>(index)];
}

NoiseSampler::NoiseSampler() : stat_before_(cpu_line()) {
  late_.first_bucket = now_ns() / kBucketNs;
  thread_ = std::thread([this] { sample(); });
}

NoiseSampler::~NoiseSampler() {
  stop_.store(true);
  if (thread_.joinable()) {
    thread_.join();
  }
}

void NoiseSampler::sample() {
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  std::int64_t next = now_ns();
  while (!stop_.load(std::memory_order_relaxed)) {
    next = std::max(next + kPeriodNs, now_ns());  // skips missed periods, so that one lateness counts once
    const timespec until{next / 1'000'000'000, next % 1'000'000'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    const std::int64_t late = now_ns() - next;
    const std::lock_guard lock(mutex_);
    lateness_.add(static_cast<std::uint64_t>(std::max<std::int64_t>(late, 0)));
    const auto index = static_cast<std::size_t>(std::max<std::int64_t>(0, next / kBucketNs - late_.first_bucket));
    if (late_.ns.size() <= index) {
      late_.ns.resize(index + 1);
    }
    if (late > kOrdinaryLatenessNs) {
      late_.ns[index] += late - kOrdinaryLatenessNs;
    }
  }
}

NoiseSampler::Late NoiseSampler::late() const {
  const std::lock_guard lock(mutex_);
  return late_;
}

Noise NoiseSampler::stop() {
  stop_.store(true);
  if (thread_.joinable()) {
    thread_.join();
  }
  const CpuParts parts = cpu_parts(stat_before_, cpu_line());
  Noise noise;
  noise.lateness_ns = lateness_;
  noise.steal_percent = parts.steal_percent;
  noise.busy_percent = parts.busy_percent;
  noise.cpus = std::thread::hardware_concurrency();
  return noise;
}

}  // namespace headgate::bench
