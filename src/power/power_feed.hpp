// Reads devices' power at a steady rate while they have subscribers, and gives each subscriber new values. A slow
// subscriber sees only the newest value. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/now.hpp"
#include "base/result.hpp"

namespace headgate::power {

struct PowerDraw {
  std::uint64_t mw = 0;
  std::optional<std::uint64_t> dram_mw;  // for CPU packages that measure it
  friend bool operator==(const PowerDraw&, const PowerDraw&) = default;
};

struct PowerSample {
  std::uint64_t unix_ms = 0;
  std::uint32_t device = 0;
  PowerDraw draw;
  friend bool operator==(const PowerSample&, const PowerSample&) = default;
};

class PowerFeed {
 public:
  // Called on the feed's thread only. On an error, the device keeps its last value.
  using Read = std::function<Result<PowerDraw>(std::uint32_t device)>;
  // `devices`: device numbers. `clock`: nanoseconds, for `least_gap`.
  PowerFeed(std::vector<std::uint32_t> devices, std::chrono::nanoseconds period, Read read,
            std::function<std::uint64_t()> clock = steady_now_ns);
  ~PowerFeed();
  PowerFeed(const PowerFeed&) = delete;

  // `wake` is called when take() has values: on any thread, with the feed's lock held. `least_gap`: minimum time
  // between two values of one device for this subscriber; 0: every change. Ignores unknown devices.
  [[nodiscard]] std::uint64_t subscribe(const std::vector<std::uint32_t>& devices, std::chrono::nanoseconds least_gap,
                                        std::function<void()> wake);
  // Returns values that changed since this subscriber's last call, and each device's first value.
  [[nodiscard]] std::vector<PowerSample> take(std::uint64_t subscriber);
  void unsubscribe(std::uint64_t subscriber);
  [[nodiscard]] std::size_t subscribers() const;

 private:
  struct Device {
    std::size_t subscribers = 0;
    std::optional<PowerSample> last;
    std::uint64_t version = 0;  // of `last`; incremented at each change
  };
  struct Seen {
    std::uint64_t version = 0, at_ns = 0;
  };
  struct Subscriber {
    std::map<std::uint32_t, Seen> devices;
    std::uint64_t least_gap_ns = 0;
    std::function<void()> wake;
  };

  void poll(const std::stop_token& stop);
  static bool is_news(const Device& device, const Seen& seen, const Subscriber& to, std::uint64_t now_ns);
  [[nodiscard]] bool has_news(const Subscriber& subscriber, std::uint64_t now_ns) const;

  const std::uint64_t period_ns_;
  const Read read_;
  const std::function<std::uint64_t()> clock_;
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable_any changed_;
  std::map<std::uint32_t, Device> devices_;
  std::map<std::uint64_t, Subscriber> subscribers_;
  std::uint64_t last_subscriber_ = 0;
  bool first_wanted_ = false;  // a subscriber waits for a device's first value
  std::jthread thread_;        // last member: the thread uses the others
};

}  // namespace headgate::power
