// Formats metrics and events: a page in Prometheus text format 0.0.4, and one per line for other collectors (InfluxDB
// line protocol and JSON). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "snapshot/snapshot.hpp"

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

enum class LineForm { influx, json };

// Parses "influx" or "json"; empty for any other text.
[[nodiscard]] std::optional<LineForm> line_form(std::string_view word);

// Formats the metrics of /metrics, one line per label set: "headgate_gpu_power_watts{uuid=...}" becomes field
// power_watts of headgate_gpu with tag uuid. Each line also carries the tag `node` and `unix_ns`. Tag values are
// cleaned like the page's labels; values that are not finite are left out.
[[nodiscard]] std::string metric_lines(const std::vector<Family>& families, const std::string& node,
                                       std::uint64_t unix_ns, LineForm form);

// headgate_event: tags node, kind, severity, share, uuid; fields sequence, pid, uid, text; stamped with its own time.
[[nodiscard]] std::string event_line(const snapshot::Event& event, const std::string& node, LineForm form);

}  // namespace headgate::api
