// Durations of a load's kernels, from a text such as "200us", "lognormal:200us,1.0,seed=7" or "list:20us,200us,1ms".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::load {

enum class MixKind { fixed, lognormal, list };

struct Mix {
  MixKind kind = MixKind::fixed;
  std::vector<double> times_us{200.0};  // fixed: one; lognormal: the median; list: used in turn
  double sigma = 0.0;                   // lognormal: standard deviation of the logarithm
  std::uint64_t seed = 1;

  friend bool operator==(const Mix&, const Mix&) = default;
};

// Accepts TIME | fixed:TIME | lognormal:TIME,SIGMA[,seed=N] | list:TIME,TIME...; TIME is a number with ns, us, ms or s,
// 0.001 us to 60 s; SIGMA 0..3. Errors: usage, with the value and these forms.
[[nodiscard]] Result<Mix> parse_mix(std::string_view text);

// Parses a time with its unit to microseconds.
[[nodiscard]] Result<double> parse_time_us(std::string_view text);

// A stream of kernel durations. Equal mix and salt give equal streams. Not thread-safe.
class MixSource {
 public:
  MixSource(const Mix& mix, std::uint64_t salt);
  [[nodiscard]] double next_us();

 private:
  Mix mix_;
  std::uint64_t state_;
  std::size_t position_ = 0;
};

}  // namespace headgate::load
