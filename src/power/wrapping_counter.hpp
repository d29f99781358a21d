// The running sum of a wrapping counter such as RAPL's energy_uj. Pure.
#pragma once

#include <cstdint>

namespace headgate::power {

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

}  // namespace headgate::power
