#include "api/page.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <variant>

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

using Json = nlohmann::ordered_json;
using Figure = std::variant<double, std::uint64_t, std::string>;

struct Line {
  std::string measurement;
  Labels tags;
  std::vector<std::pair<std::string, Figure>> fields;
  std::uint64_t unix_ns = 0;
};

// Splits into "headgate_gpu" and "power_watts": the measurement is the first two words of the name.
std::pair<std::string, std::string> parted(const std::string& name) {
  const std::size_t second = name.find('_', name.find('_') + 1);
  if (second == std::string::npos) return {name, "value"};
  return {name.substr(0, second), name.substr(second + 1)};
}

// A trailing backslash would escape the separator after a tag value, so backslashes become slashes.
std::string influx_tag(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ',' || c == '=' || c == ' ') out += '\\';
    out += c == '\\' ? '/' : c;
  }
  return out;
}

std::string influx_figure(const Figure& figure) {
  if (const auto* number = std::get_if<double>(&figure)) {
    std::array<char, 32> text;  // the longest is -2.2250738585072014e-308
    return {text.data(), std::to_chars(text.begin(), text.end(), *number).ptr};
  }
  if (const auto* whole = std::get_if<std::uint64_t>(&figure)) return std::to_string(*whole) + "i";
  std::string out = "\"";
  for (const char c : std::get<std::string>(figure)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string influx(const Line& line) {
  std::string out = line.measurement;
  for (const auto& [name, value] : line.tags) out += "," + name + "=" + influx_tag(value);
  char separator = ' ';
  for (const auto& [name, figure] : line.fields) {
    out += separator + name + "=" + influx_figure(figure);
    separator = ',';
  }
  return out + " " + std::to_string(line.unix_ns) + "\n";
}

std::string json(const Line& line) {
  Json out = {{"measurement", line.measurement},
              {"unix_ns", line.unix_ns},
              {"tags", Json::object()},
              {"fields", Json::object()}};
  for (const auto& [name, value] : line.tags) out["tags"][name] = value;
  for (const auto& field : line.fields)
    std::visit([&](const auto& value) { out["fields"][field.first] = value; }, field.second);
  return out.dump() + "\n";
}

std::string written(Line line, LineForm form) {
  std::erase_if(line.tags, [](const auto& tag) { return tag.second.empty(); });
  for (auto& [name, value] : line.tags) value = harmless_label(value);
  return form == LineForm::influx ? influx(line) : json(line);
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

std::optional<LineForm> line_form(std::string_view word) {
  if (word == "influx") return LineForm::influx;
  if (word == "json") return LineForm::json;
  return std::nullopt;
}

std::string metric_lines(const std::vector<Family>& families, const std::string& node, std::uint64_t unix_ns,
                         LineForm form) {
  std::vector<Line> lines;
  std::map<std::pair<std::string, Labels>, std::size_t> known;
  for (const Family& family : without_histograms(families)) {
    const auto [measurement, field] = parted(family.name);
    for (const Sample& sample : family.samples) {
      if (!std::isfinite(sample.value)) continue;
      const auto [at, fresh] = known.try_emplace({measurement, sample.labels}, lines.size());
      if (fresh) {
        Line& line = lines.emplace_back(Line{measurement, {{"node", node}}, {}, unix_ns});
        std::ranges::copy_if(sample.labels, std::back_inserter(line.tags), [](const auto& label) {
          return label.first != "node";  // headgate_node_info has this label already
        });
      }
      lines[at->second].fields.emplace_back(field, sample.value);
    }
  }
  std::string out;
  for (Line& line : lines) out += written(std::move(line), form);
  return out;
}

std::string event_line(const snapshot::Event& event, const std::string& node, LineForm form) {
  return written({"headgate_event",
                  {{"node", node},
                   {"kind", event.kind},
                   {"severity", event.severity},
                   {"share", event.share},
                   {"uuid", event.uuid}},
                  {{"sequence", event.sequence},
                   {"pid", std::uint64_t{event.pid}},
                   {"uid", std::uint64_t{event.uid}},
                   {"text", harmless_label(event.text, 1024)}},
                  event.unix_ns},
                 form);
}

}  // namespace headgate::api
