#include "oci/json_text.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/utf8.hpp"

namespace headgate::oci {

Result<Json> parse_json(std::string_view text, const JsonBounds& bounds) {
  if (text.size() > bounds.bytes)
    return fail(ErrorCode::usage, "is longer than " + std::to_string(bounds.bytes >> 20) + " MiB");
  std::vector<std::set<std::string>> keys;
  std::string twice;
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    deep = deep || depth > bounds.depth;
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty()) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second && twice.empty()) twice = key;
    }
    return depth <= bounds.depth;
  };
  Json json = Json::parse(text, watch, false);
  if (deep) return fail(ErrorCode::usage, "is nested more than " + std::to_string(bounds.depth) + " deep");
  if (json.is_discarded()) return fail(ErrorCode::usage, "is no JSON");
  if (!twice.empty()) return fail(ErrorCode::usage, "has the field '" + printable(twice, 80) + "' twice");
  return json;
}

}  // namespace headgate::oci
