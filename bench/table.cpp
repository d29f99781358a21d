#include "table.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace headgate::bench {

namespace {

const char* word_for(Verdict verdict) {
  switch (verdict) {
    case Verdict::reached: return "reached";
    case Verdict::missed: return "MISSED";
    case Verdict::told: return "";
    case Verdict::unmeasured: return "not measured";
  }
  return "";
}

std::string in_columns(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string text;
  for (const auto& line : lines) {
    std::string drawn;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string blanks(widths[i] - line[i].size(), ' ');
      // Text is left-aligned, figures are right-aligned.
      drawn += (i == 0 ? "" : "  ") + (i < 2 ? line[i] + blanks : blanks + line[i]);
    }
    text += drawn.substr(0, drawn.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string printed(const char* format, ...) {
  char buffer[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

std::string to_text(const Tables& tables) {
  const Noise& noise = tables.noise;
  std::string text = printed(
      "noise: %u CPUs; a sleeper's wake-up late by p50 %.1f us, p99 %.1f us, max %.1f us; longest gap of a spinning "
      "thread %.2f ms; steal ",
      noise.cpus, static_cast<double>(noise.lateness_ns.percentile_ns(0.5)) * 1e-3,
      static_cast<double>(noise.lateness_ns.percentile_ns(0.99)) * 1e-3,
      static_cast<double>(noise.lateness_ns.max_ns()) * 1e-3, static_cast<double>(noise.longest_gap_ns) * 1e-6);
  text += noise.steal_percent < 0 ? "unknown"
                                  : printed("%.2f %%, CPUs busy %.0f %%", noise.steal_percent, noise.busy_percent);
  text += "\n";
  for (const Section& section : tables.sections) {
    std::vector<std::vector<std::string>> lines;
    std::vector<std::string> heading{section.title, "REACH"};
    heading.insert(heading.end(), section.columns.begin(), section.columns.end());
    heading.emplace_back("VERDICT");
    lines.push_back(heading);
    for (const Row& row : section.rows) {
      std::vector<std::string> line{row.what, row.reach};
      line.insert(line.end(), row.values.begin(), row.values.end());
      line.resize(heading.size() - 1);
      line.emplace_back(word_for(row.verdict));
      lines.push_back(line);
    }
    text += "\n" + in_columns(lines);
  }
  return text;
}

std::string to_json(const Tables& tables) {
  const Noise& noise = tables.noise;
  nlohmann::ordered_json json{{"schema", "headgate.figures/v1"},
                              {"noise",
                               {{"cpus", noise.cpus},
                                {"wake_up_late_p50_ns", noise.lateness_ns.percentile_ns(0.5)},
                                {"wake_up_late_p99_ns", noise.lateness_ns.percentile_ns(0.99)},
                                {"wake_up_late_max_ns", noise.lateness_ns.max_ns()},
                                {"wake_ups", noise.lateness_ns.count()},
                                {"longest_gap_ns", noise.longest_gap_ns},
                                {"steal_percent", noise.steal_percent},
                                {"busy_percent", noise.busy_percent}}}};
  for (const Section& section : tables.sections) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Row& row : section.rows) {
      rows.push_back({{"what", row.what},
                      {"reach", row.reach},
                      {"verdict", word_for(row.verdict)},
                      {"shown", row.values},
                      {"figures", row.details}});
    }
    json["sections"].push_back({{"title", section.title}, {"columns", section.columns}, {"rows", rows}});
  }
  return json.dump(1) + "\n";
}

}  // namespace headgate::bench
