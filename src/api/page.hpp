// Formats metrics as a page in Prometheus text format 0.0.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headgate::api {

// Label names are ours; label values may come from untrusted sources.
using Labels = std::vector<std::pair<std::string, std::string>>;

// A counter only grows as long as its source lives.
enum class Kind { gauge, counter, histogram };

struct Bucket {
  double up_to = 0;
  std::uint64_t count = 0;  // cumulative: observations up to the bound
};

struct Sample {
  Labels labels;
  double value = 0;  // for a histogram, the sum of its observations
  // For a histogram: cumulative buckets by rising bound; the last bound is infinity.
  std::vector<Bucket> buckets = {};
};

struct Family {
  std::string name, help;
  Kind kind = Kind::gauge;
  std::vector<Sample> samples;
};

// Splits each histogram into the families that the page names: NAME_bucket with label `le`, NAME_sum and NAME_count.
[[nodiscard]] std::vector<Family> without_histograms(const std::vector<Family>& families);

// Formats the families, without those that have no samples and without empty labels. Prometheus rejects the whole page
// over one bad sample. Label values therefore become valid UTF-8 without control characters, at most 128 bytes, and of
// samples with equal labels only the first is kept.
[[nodiscard]] std::string page(const std::vector<Family>& families);

// Returns a label's value as the page writes it.
[[nodiscard]] std::string harmless_label(std::string_view text, std::size_t most_bytes = 128);

}  // namespace headgate::api
