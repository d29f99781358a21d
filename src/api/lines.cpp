#include "api/lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <variant>

namespace headgate::api {
namespace {

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
