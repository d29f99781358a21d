#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/utf8.hpp"
#include "oci/cdi_read.hpp"

namespace headgate::oci {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMaxYamlBytes = 1 << 20, kMaxValues = 100'000;
constexpr int kMaxLevels = 16;

std::unexpected<Error> at_line(const YAML::Mark& mark, const std::string& what) {
  const std::string line = mark.line < 0 ? "" : "line " + std::to_string(mark.line + 1) + ": ";
  return fail(ErrorCode::usage, line + what);
}

std::optional<std::int64_t> whole_number_from(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x")) base = 16, text.remove_prefix(2);
  else if (text.starts_with("0o")) base = 8, text.remove_prefix(2);
  else if (text.size() > 1 && text.starts_with('0')) base = 8, text.remove_prefix(1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return negative ? -number : number;
}

std::optional<double> fraction_from(std::string_view text) {
  // Neither inf nor nan, which are words.
  if (text.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<bool> bool_from(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  constexpr std::array<std::string_view, 4> kTrue = {"true", "yes", "on", "y"}, kFalse = {"false", "no", "off", "n"};
  if (std::ranges::find(kTrue, small) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, small) != kFalse.end()) return false;
  return std::nullopt;
}

// Converts a scalar without quotes.
OrderedJson plain(const std::string& text) {
  if (const auto number = whole_number_from(text)) return *number;
  if (const auto truth = bool_from(text)) return *truth;
  if (const auto fraction = fraction_from(text)) return *fraction;
  return text;
}

class Converter {
 public:
  Result<OrderedJson> value(const YAML::Node& node, int level) {
    if (level > kMaxLevels) return at_line(node.Mark(), "is nested more than " + std::to_string(kMaxLevels) + " deep");
    if (++values_ > kMaxValues)
      return at_line(node.Mark(), "has more than " + std::to_string(kMaxValues) + " values, those of aliases counted");
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null: return OrderedJson();
      case YAML::NodeType::Scalar: return scalar(node);
      case YAML::NodeType::Sequence: {
        OrderedJson list = OrderedJson::array();
        for (const auto& each : node) list.push_back(TRY(value(each, level + 1)));
        return list;
      }
      case YAML::NodeType::Map: break;
    }
    OrderedJson object = OrderedJson::object();
    for (const auto& each : node) {
      if (!each.first.IsScalar()) return at_line(each.first.Mark(), "a key is no text");
      const std::string& key = each.first.Scalar();
      if (object.contains(key)) return at_line(each.first.Mark(), "has the field '" + printable(key, 80) + "' twice");
      object[key] = TRY(value(each.second, level + 1));
    }
    return object;
  }

 private:
  static Result<OrderedJson> scalar(const YAML::Node& node) {
    const std::string& tag = node.Tag();
    if (tag == "?" || tag.empty()) return plain(node.Scalar());
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return OrderedJson(node.Scalar());
    return at_line(node.Mark(), "has the tag '" + printable(tag, 80) + "'");
  }

  std::size_t values_ = 0;
};

}  // namespace

Result<std::string> json_from_yaml(std::string_view text) {
  if (text.size() > kMaxYamlBytes) return fail(ErrorCode::usage, "is longer than 1 MiB");
  try {
    const YAML::Node node = YAML::Load(std::string(text));
    const OrderedJson json = TRY(Converter().value(node, 0));
    return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  } catch (const YAML::Exception& error) {
    return at_line(error.mark, "is no YAML: " + printable(error.msg, 200));
  }
}

bool is_document_name(std::string_view file_name) {
  return file_name.ends_with(".json") || file_name.ends_with(".yaml");
}

Result<Document> read_file_text(std::string_view file_name, std::string_view text) {
  if (!file_name.ends_with(".yaml")) return read_json(text);
  return read_json(TRY(json_from_yaml(text)));
}

}  // namespace headgate::oci
