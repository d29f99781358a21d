// Figures as a page that Prometheus reads: its text format 0.0.4.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headgate::api {

// A label's name is ours; its value may come from anybody.
using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  Labels labels;
  double value = 0;
};

struct Family {
  std::string name, help;
  bool counter = false;  // it only grows while its source lives; otherwise a gauge
  std::vector<Sample> samples;
};

// Families without samples are left out, and labels without a value: to Prometheus that is the same. Values of labels become valid UTF-8 without control characters, at most 128
// bytes: Prometheus drops the whole page over one that is not. Of samples with equal labels the first is kept, for the
// same reason.
[[nodiscard]] std::string page(const std::vector<Family>& families);

// A label's value as the page writes it.
[[nodiscard]] std::string harmless_label(std::string_view text, std::size_t most_bytes = 128);

}  // namespace headgate::api
