// The rows of a benchmark and their output: a table for people, JSON for machines.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "noise.hpp"

namespace headgate::bench {

enum class Verdict { reached, missed, told, unmeasured };  // told: it has no goal

struct Row {
  std::string what;
  std::string reach;                // the goal as text; empty if there is none
  std::vector<std::string> values;  // per column
  Verdict verdict = Verdict::told;
  nlohmann::ordered_json details;  // base units
};

struct Section {
  std::string title;
  std::vector<std::string> columns;
  std::vector<Row> rows;
};

struct Tables {
  Noise noise;
  std::vector<Section> sections;
};

// The noise row comes first.
[[nodiscard]] std::string to_text(const Tables& tables);
[[nodiscard]] std::string to_json(const Tables& tables);

// Formats like printf into a string.
[[nodiscard, gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...);

}  // namespace headgate::bench
