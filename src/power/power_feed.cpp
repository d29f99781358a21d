#include "power/power_feed.hpp"

#include <algorithm>
#include <utility>

namespace headgate::power {

PowerFeed::PowerFeed(std::vector<std::uint32_t> devices, std::chrono::nanoseconds period, Read read,
                     std::function<std::uint64_t()> clock)
    : period_ns_(static_cast<std::uint64_t>(period.count())), read_(std::move(read)), clock_(std::move(clock)) {
  for (const std::uint32_t device : devices) devices_[device];
  thread_ = std::jthread([this](const std::stop_token& stop) { poll(stop); });
}

PowerFeed::~PowerFeed() = default;

std::uint64_t PowerFeed::subscribe(const std::vector<std::uint32_t>& devices, std::chrono::nanoseconds least_gap,
                                   std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  Subscriber& subscriber = subscribers_[++last_subscriber_];
  subscriber.least_gap_ns = static_cast<std::uint64_t>(least_gap.count());
  subscriber.wake = std::move(wake);
  for (const std::uint32_t number : devices) {
    const auto device = devices_.find(number);
    if (device == devices_.end() || !subscriber.devices.emplace(number, Seen{}).second) continue;
    ++device->second.subscribers;
    first_wanted_ = first_wanted_ || !device->second.last;
  }
  if (has_news(subscriber, clock_())) subscriber.wake();
  changed_.notify_all();
  return last_subscriber_;
}

void PowerFeed::unsubscribe(std::uint64_t subscriber) {
  const std::lock_guard lock(mutex_);
  const auto found = subscribers_.find(subscriber);
  if (found == subscribers_.end()) return;
  for (const auto& [number, seen] : found->second.devices) {
    Device& device = devices_[number];
    // The next subscriber must not get a stale value.
    if (--device.subscribers == 0) device.last.reset();
  }
  subscribers_.erase(found);
}

std::size_t PowerFeed::subscribers() const {
  const std::lock_guard lock(mutex_);
  return subscribers_.size();
}

std::vector<PowerSample> PowerFeed::take(std::uint64_t subscriber) {
  const std::uint64_t now_ns = clock_();
  std::vector<PowerSample> news;
  const std::lock_guard lock(mutex_);
  const auto found = subscribers_.find(subscriber);
  if (found == subscribers_.end()) return news;
  for (auto& [number, seen] : found->second.devices) {
    const Device& device = devices_[number];
    if (!is_news(device, seen, found->second, now_ns)) continue;
    seen = {device.version, now_ns};
    news.push_back(*device.last);
  }
  return news;
}

bool PowerFeed::is_news(const Device& device, const Seen& seen, const Subscriber& to, std::uint64_t now_ns) {
  return device.last && device.version != seen.version && (seen.version == 0 || now_ns - seen.at_ns >= to.least_gap_ns);
}

bool PowerFeed::has_news(const Subscriber& subscriber, std::uint64_t now_ns) const {
  return std::ranges::any_of(subscriber.devices, [&](const auto& entry) {
    return is_news(devices_.at(entry.first), entry.second, subscriber, now_ns);
  });
}

void PowerFeed::poll(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  std::uint64_t next_ns = 0;
  for (;;) {
    const bool wanted = changed_.wait(lock, stop, [this] { return !subscribers_.empty(); });
    if (!wanted) return;
    const std::uint64_t now_ns = steady_now_ns();
    if (now_ns < next_ns && !first_wanted_) {
      changed_.wait_for(lock, stop, std::chrono::nanoseconds(next_ns - now_ns), [this] { return first_wanted_; });
      if (stop.stop_requested()) return;
      continue;
    }
    first_wanted_ = false;
    // A slow reading delays the next one; the rate is only an upper limit.
    next_ns = std::max(next_ns + period_ns_, now_ns);
    std::vector<std::uint32_t> followed;
    for (const auto& [number, device] : devices_)
      if (device.subscribers > 0) followed.push_back(number);
    for (const std::uint32_t number : followed) {
      lock.unlock();
      const auto draw = read_(number);
      lock.lock();
      Device& device = devices_[number];
      if (!draw || device.subscribers == 0 || (device.last && device.last->draw == *draw)) continue;
      device.last = PowerSample{.unix_ms = unix_now_ns() / 1'000'000, .device = number, .draw = *draw};
      ++device.version;
    }
    const std::uint64_t read_ns = clock_();
    for (const auto& [id, subscriber] : subscribers_)
      if (has_news(subscriber, read_ns)) subscriber.wake();
  }
}

}  // namespace headgate::power
