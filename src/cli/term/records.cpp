#include "cli/term/records.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/did_you_mean.hpp"
#include "base/joined.hpp"
#include "base/json.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSpread = "devices";

struct RecordColumn {
  std::string name;
  Json::json_pointer at;
  bool spread = false;  // for a field of a list element that gets its own line
};

bool is_spread(const std::string& key, const Json& value) { return key == kSpread && value.is_array(); }

void add_columns(const Json& pattern, const std::string& prefix, const Json::json_pointer& at, bool spread,
                 std::vector<RecordColumn>& out) {
  for (const auto& [key, value] : pattern.items()) {
    const bool nested = value.is_array() && !value.empty() && value.front().is_object();
    if (is_spread(key, value) || nested) continue;
    if (value.is_object()) add_columns(value, prefix + key + ".", at / key, spread, out);
    else out.push_back({prefix + key, at / key, spread});
  }
}

std::vector<RecordColumn> columns_of(const Json& pattern) {
  std::vector<RecordColumn> all;
  add_columns(pattern, "", Json::json_pointer(), false, all);
  const auto list = pattern.find(kSpread);
  if (list != pattern.end() && !list->empty()) add_columns(list->front(), "", Json::json_pointer(), true, all);
  return all;
}

std::string cell_of(const Json& object, const Json::json_pointer& at) {
  if (!object.contains(at)) return "";
  const Json& value = object[at];
  if (value.is_null() || (value.is_array() && value.empty())) return "";
  if (value.is_string()) return csv_cell(value.get<std::string>());
  return value.is_array() ? csv_cell(compact_json(value)) : compact_json(value);
}

// The names of all columns, in order.
std::vector<std::string> names_of(const std::vector<RecordColumn>& columns, const Origin& origin) {
  std::vector<std::string> names = {"node", "simulated"};
  if (origin.taken_unix_ns) names.insert(names.begin(), "taken_unix_ns");
  for (const RecordColumn& column : columns) names.push_back(column.name);
  return names;
}

}  // namespace

std::string csv_cell(std::string_view text) {
  std::string clean = harmless(text);
  if (!clean.empty() && std::string_view("=+-@").contains(clean.front())) clean.insert(0, 1, '\'');
  if (clean.find_first_of(",\"\r\n") == std::string::npos) return clean;
  for (std::size_t at = 0; (at = clean.find('"', at)) != std::string::npos; at += 2) clean.insert(at, 1, '"');
  return "\"" + clean + "\"";
}

std::string jsonl(const Records& records, const Origin& origin) {
  std::string text;
  for (const std::string& object : records.objects) {
    Json line = {{"schema", records.schema}};
    if (origin.taken_unix_ns) line["taken_unix_ns"] = *origin.taken_unix_ns;
    line["node"] = origin.node;
    line["simulated"] = origin.simulated;
    line.update(parse_json(object));
    text += compact_json(line) + "\n";
  }
  return text;
}

std::string csv(const Records& records, const Origin& origin, bool heading, const std::vector<std::string>& columns) {
  const auto all = columns_of(parse_json(records.pattern));
  const auto names = names_of(all, origin);
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (const std::string& name : columns.empty() ? names : columns) {
      const auto place = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
      line += "," + (place < cells.size() ? cells[place] : "");
    }
    text += line.substr(1) + "\n";
  };
  if (heading) add_line(names);
  std::vector<std::string> front = {csv_cell(origin.node), origin.simulated ? "true" : "false"};
  if (origin.taken_unix_ns) front.insert(front.begin(), std::to_string(*origin.taken_unix_ns));
  for (const std::string& one : records.objects) {
    const Json object = parse_json(one);
    const auto list = object.find(kSpread);
    for (const Json& element : list == object.end() || list->empty() ? Json::array({Json()}) : *list) {
      std::vector<std::string> cells = front;
      for (const RecordColumn& column : all) cells.push_back(cell_of(column.spread ? element : object, column.at));
      add_line(cells);
    }
  }
  return text;
}

Result<std::string> lines(const Records& records, const Origin& origin, const Voice& voice, bool heading) {
  if (voice.format != Format::csv) return jsonl(records, origin);
  const auto names = names_of(columns_of(parse_json(records.pattern)), origin);
  for (const std::string& column : voice.columns_of_csv) {
    if (std::ranges::find(names, column) != names.end()) continue;
    const std::string near = did_you_mean(column, names);
    return fail(ErrorCode::usage, "--columns: there is no column '" + harmless(column) + "'",
                (near.empty() ? "" : "did you mean " + near + "? ") + "accepted: " + joined(names, ", "));
  }
  return csv(records, origin, heading, voice.columns_of_csv);
}

Json enclosed(std::string_view schema, std::string_view key, Json value, const snapshot::Snapshot& snapshot) {
  return {{"schema", schema},
          {"simulated", snapshot.node.simulated},
          {"level", snapshot.node.level},
          {key, std::move(value)}};
}

std::string enclosed_text(std::string_view schema, std::string_view key, std::string_view value,
                          const snapshot::Snapshot& snapshot) {
  return pretty_json(enclosed(schema, key, parse_json(value), snapshot));
}

Origin origin_of(const snapshot::Snapshot& snapshot) {
  return {snapshot.node.name, snapshot.node.simulated, snapshot.taken_unix_ns};
}

Json picked(const Json& from, std::string_view fields) {
  Json to = Json::object();
  std::istringstream in{std::string(fields)};
  for (std::string field; in >> field;) {
    const bool may_lack = field.ends_with('?');
    if (may_lack) field.pop_back();
    const std::size_t equals = field.find('=');
    const auto found = from.find(field.substr(equals == std::string::npos ? 0 : equals + 1));
    const bool is_there = found != from.end() && !found->is_null();
    if (is_there || !may_lack) to[field.substr(0, equals)] = is_there ? *found : Json();
  }
  return to;
}

}  // namespace headgate::cli
