// The running sum of a counter that wraps around, as RAPL's energy_uj does. Pure.
#pragma once

#include <cstdint>

namespace headgate::power {

class WrappingCounter {
 public:
  // `range`: the counter's greatest value, after which it shows 0 again; 0: it never wraps.
  explicit WrappingCounter(std::uint64_t range = 0) : range_(range) {}

  // The sum with this reading: the first reading itself, then what came on top. A reading below the last one has
  // wrapped once; the counter must be read at least once a turn.
  std::uint64_t add(std::uint64_t reading) {
    if (!begun_) sum_ = reading;
    else if (reading >= last_) sum_ += reading - last_;
    else if (range_ > last_) sum_ += range_ - last_ + reading;
    else sum_ += reading;  // the range is not what the counter does: it was reset
    begun_ = true;
    last_ = reading;
    return sum_;
  }

 private:
  std::uint64_t range_, last_ = 0, sum_ = 0;
  bool begun_ = false;
};

}  // namespace headgate::power
