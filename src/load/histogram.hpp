// A histogram of nanoseconds with buckets at most 1.6 % wide: fixed size, mergeable, precise enough for percentiles.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace headgate::load {

class Histogram {
 public:
  void add(std::uint64_t ns) {
    ++buckets_[bucket_of(ns)];
    ++count_;
    sum_ += ns;
    max_ = ns > max_ ? ns : max_;
  }

  void merge(const Histogram& other) {
    for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = other.max_ > max_ ? other.max_ : max_;
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t max_ns() const { return max_; }
  [[nodiscard]] double mean_ns() const {
    return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }

  // Returns the smallest bucket bound that a fraction `part` (0..1) of the times does not exceed; 0 if empty.
  [[nodiscard]] std::uint64_t percentile_ns(double part) const {
    const auto wanted = static_cast<std::uint64_t>(part * static_cast<double>(count_));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen > 0 && seen >= wanted) {
        const std::uint64_t bound = upper_bound(i);
        return bound < max_ ? bound : max_;
      }
    }
    return max_;
  }

 private:
  static constexpr unsigned kSubBits = 6;  // 64 buckets per octave
  static constexpr std::size_t kBuckets = (64 - kSubBits) << kSubBits;

  static std::size_t bucket_of(std::uint64_t ns) {
    if (ns < (1u << kSubBits)) return ns;
    const unsigned octave = static_cast<unsigned>(std::bit_width(ns)) - 1 - kSubBits;
    const std::size_t index = (static_cast<std::size_t>(octave) << kSubBits) + (ns >> octave);
    return index < kBuckets ? index : kBuckets - 1;
  }

  // Inverse of bucket_of: returns the largest time of bucket i.
  static std::uint64_t upper_bound(std::size_t i) {
    if (i < (2u << kSubBits)) return i;
    const unsigned octave = static_cast<unsigned>(i >> kSubBits) - 1;
    const std::uint64_t mantissa = (i & ((1u << kSubBits) - 1)) + (1u << kSubBits);
    return ((mantissa + 1) << octave) - 1;
  }

  std::array<std::uint32_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0, sum_ = 0, max_ = 0;
};

}  // namespace headgate::load
