// Formats for programs: JSON lines and CSV. The columns are the fields that a struct lists (snapshot/snapshot.hpp), so
// names and base units match the daemon's replies.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.hpp"
#include "cli/term/output.hpp"
#include "snapshot/json.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Fields added to every line.
struct Origin {
  std::string node;
  bool simulated = false;
  std::optional<std::uint64_t> taken_unix_ns;  // empty for records with their own time
};

// Records of one kind, each a JSON object as text.
struct Records {
  std::string schema;                // "headgate.share/v1"
  std::string pattern;               // a complete object of that kind; defines the columns
  std::vector<std::string> objects;  // a missing field becomes an empty cell
};

// {"schema": ..., "node": ..., the object's own fields}, and a line feed.
[[nodiscard]] std::string jsonl(const Records& records, const Origin& origin);
// Writes a line for each object, or for each element of its list "devices" after the object's own fields. A field of a
// nested object becomes a column "last_refusal.pid", and a list of words is JSON in one cell. Lists of objects, such as
// launch_delays, are left to JSON.
// `columns`: only these, in this order; empty: all.
[[nodiscard]] std::string csv(const Records& records, const Origin& origin, bool heading,
                              const std::vector<std::string>& columns = {});
// The records in the form of `voice`: CSV, which starts with the names of columns if `heading`, or JSON lines. Errors:
// usage, for a column that there is not.
[[nodiscard]] Result<std::string> lines(const Records& records, const Origin& origin, const Voice& voice, bool heading);
// Formats a cell: quoted by RFC 4180 if needed, without terminal control bytes. An apostrophe precedes text that a
// spreadsheet would take for a formula, because program names are untrusted.
[[nodiscard]] std::string csv_cell(std::string_view text);

// Returns one JSON object: the schema, mandatory facts (simulated, level), and `value` under `key`.
[[nodiscard]] nlohmann::ordered_json enclosed(std::string_view schema, std::string_view key,
                                              nlohmann::ordered_json value, const snapshot::Snapshot& snapshot);
// The same as pretty_json() of a value that is JSON already.
[[nodiscard]] std::string enclosed_text(std::string_view schema, std::string_view key, std::string_view value,
                                        const snapshot::Snapshot& snapshot);
[[nodiscard]] Origin origin_of(const snapshot::Snapshot& snapshot);

// Returns a JSON object of chosen fields of `from`, in this order: "uuid", or "new_name=old_name". A field that is
// not there is null; with '?' behind its name it is left out if it is null.
[[nodiscard]] nlohmann::ordered_json picked(const nlohmann::ordered_json& from, std::string_view fields);

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
