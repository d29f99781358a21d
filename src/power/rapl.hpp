// Energy of CPU packages and their memory from the kernel's powercap files (Documentation/power/powercap). Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "power/power_feed.hpp"

namespace headgate::power {

// Parses a file with one number: digits, optionally a line feed. Errors: failed, quoting the content.
[[nodiscard]] Result<std::uint64_t> parse_counter(std::string_view text);

// "intel-rapl:1" -> 1. Empty for sub-zones ("intel-rapl:1:0") and other names.
[[nodiscard]] std::optional<std::uint32_t> package_number(std::string_view folder);

// The running sum of a wrapping counter such as energy_uj. Pure.
class WrappingCounter {
 public:
  // `range`: the counter's maximum, after which it continues at 0; 0: it never wraps.
  explicit WrappingCounter(std::uint64_t range = 0) : range_(range) {}

  // Adds a reading and returns the sum, which starts at the first reading. A lower reading counts as one wrap, so read
  // the counter at least once per wrap.
  std::uint64_t add(std::uint64_t reading) {
    if (!begun_) sum_ = reading;
    else if (reading >= last_) sum_ += reading - last_;
    else if (range_ > last_) sum_ += range_ - last_ + reading;
    else sum_ += reading;  // outside the range: the counter was reset
    begun_ = true;
    last_ = reading;
    return sum_;
  }

 private:
  std::uint64_t range_, last_ = 0, sum_ = 0;
  bool begun_ = false;
};

struct CpuEnergy {
  std::uint64_t package_uj = 0;
  std::optional<std::uint64_t> dram_uj;  // empty: not measured or unreadable
};

// Returns the mean between two readings that are `elapsed` apart.
[[nodiscard]] PowerDraw mean_power(const CpuEnergy& before, const CpuEnergy& after, std::chrono::nanoseconds elapsed);

class Rapl {
 public:
  // Returns /zeus_sys if a container has the host's /sys mounted there, else /sys.
  [[nodiscard]] static std::string usual_root();

  // `root`: a sysfs with class/powercap/intel-rapl. Skips psys zones, which count the packages again, and unknown
  // zones. A machine without RAPL has no packages. `keep_alive`: interval of readings without a caller, because a
  // package of 500 W with the usual range of 262 kJ wraps after 8 minutes.
  explicit Rapl(std::string root, std::chrono::milliseconds keep_alive = std::chrono::seconds(30));
  ~Rapl();
  Rapl(const Rapl&) = delete;

  struct Package {
    std::uint32_t number = 0;
    bool has_dram = false;
  };
  [[nodiscard]] const std::vector<Package>& packages() const { return packages_; }
  // Returns why no energy can be read; empty if it can.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

  // Returns the energy counted by the kernel, corrected for wraps. Errors: not_found (no such package), denied, failed.
  [[nodiscard]] Result<CpuEnergy> energy(std::uint32_t package);

 private:
  struct Zone {
    std::string folder;
    WrappingCounter counter;
  };
  struct Zones {
    Zone package;
    std::optional<Zone> dram;
  };
  Result<std::uint64_t> add_reading(Zone& zone);
  void keep_alive(const std::stop_token& stop, std::chrono::milliseconds gap);

  std::vector<Package> packages_;
  std::string trouble_;
  std::mutex mutex_;
  std::map<std::uint32_t, Zones> zones_;
  std::jthread thread_;  // reads all counters regularly to catch wraps; last member: it uses the others
};

}  // namespace headgate::power
