// Energy of CPU packages and their memory, from the kernel's powercap files (Documentation/power/powercap).
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "power/power_feed.hpp"
#include "power/wrapping_counter.hpp"

namespace headgate::power {

// A file of one number: digits, and a line feed at the end or none. Errors: failed, with what it says.
[[nodiscard]] Result<std::uint64_t> parse_counter(std::string_view text);

// "intel-rapl:1" -> 1. Empty for names of sub-zones ("intel-rapl:1:0") and others.
[[nodiscard]] std::optional<std::uint32_t> package_number(std::string_view folder);

struct CpuEnergy {
  std::uint64_t package_uj = 0;
  std::optional<std::uint64_t> dram_uj;  // empty: this package does not count it, or it cannot be read
};

// Of two readings that lie `elapsed` apart.
[[nodiscard]] PowerDraw mean_power(const CpuEnergy& before, const CpuEnergy& after, std::chrono::nanoseconds elapsed);

class Rapl {
 public:
  // `/zeus_sys` where a container has the host's /sys mounted there, else `/sys`.
  [[nodiscard]] static std::string usual_root();

  // `root`: a sysfs with class/powercap/intel-rapl. Zones called psys, which count the packages once more, and zones of
  // other names are left out. A machine without RAPL has no packages. `keep_alive`: between two readings without a
  // caller: a package of 500 W with the usual range of 262 kJ wraps after 8 minutes.
  explicit Rapl(std::string root, std::chrono::milliseconds keep_alive = std::chrono::seconds(30));
  ~Rapl();
  Rapl(const Rapl&) = delete;

  struct Package {
    std::uint32_t number = 0;
    bool has_dram = false;
  };
  [[nodiscard]] const std::vector<Package>& packages() const { return packages_; }
  // Empty where the files lie; else why no energy can be read.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

  // Since the kernel began to count, without the wraps. Errors: not_found (no package has this number), denied, failed.
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
  std::jthread thread_;  // reads each counter now and then, so that no wrap is missed; the last: it uses the others
};

}  // namespace headgate::power
