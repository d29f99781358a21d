#include "api/page.hpp"

#include <prometheus/text_serializer.h>

#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "base/utf8.hpp"

namespace headgate::api {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

prometheus::MetricFamily translated(const Family& family) {
  prometheus::MetricFamily out;
  out.name = family.name;
  out.help = family.help;
  out.type = family.kind == Kind::histogram ? prometheus::MetricType::Histogram
             : family.kind == Kind::counter ? prometheus::MetricType::Counter
                                            : prometheus::MetricType::Gauge;
  std::set<std::vector<prometheus::ClientMetric::Label>> seen;
  for (const Sample& sample : family.samples) {
    prometheus::ClientMetric metric;
    for (const auto& [name, value] : sample.labels) {
      if (!value.empty()) metric.label.push_back({name, harmless_label(value)});
    }
    if (!seen.insert(metric.label).second) continue;
    if (family.kind == Kind::histogram) {
      metric.histogram.sample_sum = sample.value;
      metric.histogram.sample_count = sample.buckets.empty() ? 0 : sample.buckets.back().count;
      for (const Bucket& bucket : sample.buckets) metric.histogram.bucket.push_back({bucket.count, bucket.up_to});
    } else {
      (family.kind == Kind::counter ? metric.counter.value : metric.gauge.value) = sample.value;
    }
    out.metric.push_back(std::move(metric));
  }
  return out;
}

// Formats a bucket's bound as the page writes it.
std::string bound_text(double bound) {
  if (std::isinf(bound)) return "+Inf";
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.begin(), text.end(), bound).ptr};
}

}  // namespace

std::vector<Family> without_histograms(const std::vector<Family>& families) {
  std::vector<Family> plain;
  for (const Family& family : families) {
    if (family.kind != Kind::histogram) {
      plain.push_back(family);
      continue;
    }
    Family count{family.name + "_count", family.help, Kind::counter, {}};
    Family sum{family.name + "_sum", family.help, Kind::counter, {}};
    Family buckets{family.name + "_bucket", family.help, Kind::counter, {}};
    for (const Sample& sample : family.samples) {
      if (sample.buckets.empty()) continue;
      count.samples.push_back({sample.labels, static_cast<double>(sample.buckets.back().count)});
      sum.samples.push_back({sample.labels, sample.value});
      for (const Bucket& bucket : sample.buckets) {
        Labels labels = sample.labels;
        labels.emplace_back("le", bound_text(bucket.up_to));
        buckets.samples.push_back({std::move(labels), static_cast<double>(bucket.count)});
      }
    }
    for (Family* part : {&count, &sum, &buckets}) plain.push_back(std::move(*part));
  }
  return plain;
}

std::string harmless_label(std::string_view text, std::size_t most_bytes) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = utf8_character(text);
    const bool control = size == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7f);
    const std::string_view next = size == 0 ? kReplacement : control ? "?" : text.substr(0, size);
    if (out.size() + next.size() > most_bytes) break;
    out += next;
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

std::string page(const std::vector<Family>& families) {
  std::vector<prometheus::MetricFamily> all;
  for (const Family& family : families) {
    if (!family.samples.empty()) all.push_back(translated(family));
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace headgate::api
