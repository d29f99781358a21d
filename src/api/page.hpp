// Figures as a page that Prometheus reads: its text format 0.0.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headgate::api {

// A label's name is ours; its value may come from anybody.
using Labels = std::vector<std::pair<std::string, std::string>>;

// A counter only grows while its source lives.
enum class Kind { gauge, counter, histogram };

struct Bucket {
  double up_to = 0;
  std::uint64_t count = 0;  // of all observations that are no larger
};

struct Sample {
  Labels labels;
  double value = 0;  // of a histogram: the sum of its observations
  // Of a histogram: by rising bounds, counts that do not fall; the last bound is infinity.
  std::vector<Bucket> buckets = {};
};

struct Family {
  std::string name, help;
  Kind kind = Kind::gauge;
  std::vector<Sample> samples;
};

// "gauge", as the page says.
[[nodiscard]] std::string_view kind_word(Kind kind);

// Each histogram as the families that its page names: NAME_bucket with the label `le`, NAME_sum and NAME_count.
[[nodiscard]] std::vector<Family> without_histograms(const std::vector<Family>& families);

// Families without samples are left out, and labels without a value: to Prometheus that is the same. Values of labels
// become valid UTF-8 without control characters, at most 128 bytes: Prometheus drops the whole page over one that is
// not. Of samples with equal labels the first is kept, for the same reason.
[[nodiscard]] std::string page(const std::vector<Family>& families);

// A label's value as the page writes it.
[[nodiscard]] std::string harmless_label(std::string_view text, std::size_t most_bytes = 128);

}  // namespace headgate::api
