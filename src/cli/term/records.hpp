// Lines for other programs: one JSON object a line, or CSV. What stands in a line follows from the fields that a struct
// names (snapshot/fields.hpp), so that a column is called as in the daemon's answers and is in the same base units.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "snapshot/fields.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {

// What every line says beside its thing.
struct Origin {
  std::string node;
  bool simulated = false;
  std::optional<std::uint64_t> taken_unix_ns;  // empty for things that have a time of their own
};

// Things of one kind, each a JSON object as text.
struct Records {
  std::string schema;                // "headgate.share/v1"
  std::string pattern;               // an object of that kind that lacks nothing: it says which columns there are
  std::vector<std::string> objects;  // what one of them lacks stays an empty cell
};

// {"schema": ..., "node": ..., the object's own fields}, and a line feed.
[[nodiscard]] std::string jsonl(const Records& records, const Origin& origin);
// A line for each object, or for each element of its list "devices", whose fields follow the object's own. A field of
// an object inside is a column "last_refusal.pid"; any other list is JSON in one cell.
[[nodiscard]] std::string csv(const Records& records, const Origin& origin, bool heading);
// Text as a cell: quoted by RFC 4180 where it must be, and nothing in it drives a terminal. Before what a spreadsheet
// would take for a formula stands an apostrophe: a program's name is whatever its owner called it.
[[nodiscard]] std::string csv_cell(std::string_view text);

// One JSON object under --json: the schema, what must not be kept back (simulated, level), and `text` (JSON) as `key`.
[[nodiscard]] std::string enclosed(std::string_view schema, std::string_view key, const std::string& text,
                                   const snapshot::Snapshot& snapshot);
[[nodiscard]] Origin origin_of(const snapshot::Snapshot& snapshot);

// Gives every optional a value and every list of structs an element.
template <typename T>
void fill(T& value) {
  if constexpr (requires { value.has_value(); }) fill(value.emplace());
  else if constexpr (requires { value.emplace_back(); }) fill(value.emplace_back());
  else if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>)
    each_field(value, [](const char*, auto& field) { fill(field); });
}

// T: a struct of snapshot.hpp.
template <typename T>
[[nodiscard]] Records records_of(std::string schema, const std::vector<T>& all) {
  T whole;
  fill(whole);
  Records records{.schema = std::move(schema), .pattern = snapshot::to_json(whole), .objects = {}};
  for (const T& one : all) records.objects.push_back(snapshot::to_json(one));
  return records;
}

}  // namespace headgate::cli
