#include "api/test_reply.hpp"

#include <nlohmann/json.hpp>

namespace headgate::api {
namespace {

using Json = nlohmann::ordered_json;

class Checker {
 public:
  explicit Checker(const Json& document) : document_(document) {}

  // Returns what does not match; empty if `value` matches.
  [[nodiscard]] std::string check(const Json& schema, const Json& value, const std::string& at) const {
    for (const auto& [keyword, rule] : schema.items()) {
      std::string wrong = by(keyword, rule, schema, value, at);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  [[nodiscard]] std::string by(const std::string& keyword, const Json& rule, const Json& schema, const Json& value,
                               const std::string& at) const {
    if (keyword == "description") return "";
    if (keyword == "$ref") return check(target(rule.get<std::string>()), value, at);
    if (keyword == "type") return is_one_of(rule, value) ? "" : at + ": is no " + rule.dump() + ": " + value.dump();
    if (keyword == "enum") {
      return std::ranges::find(rule, value) != rule.end() ? ""
                                                          : at + ": is none of " + rule.dump() + ": " + value.dump();
    }
    if (keyword == "minimum") {
      return !value.is_number() || value >= rule ? "" : at + ": is less than " + rule.dump();
    }
    if (keyword == "items") {
      for (std::size_t i = 0; value.is_array() && i < value.size(); ++i) {
        std::string wrong = check(rule, value[i], at + "[" + std::to_string(i) + "]");
        if (!wrong.empty()) return wrong;
      }
      return "";
    }
    if (keyword == "oneOf") {
      int fitting = 0;
      for (const Json& one : rule) fitting += check(one, value, at).empty() ? 1 : 0;
      return fitting == 1 ? "" : at + ": fits " + std::to_string(fitting) + " of the alternatives";
    }
    if (!value.is_object()) return "";
    if (keyword == "properties") {
      for (const auto& [name, part] : rule.items()) {
        std::string wrong = value.contains(name) ? check(part, value[name], at + "." + name) : "";
        if (!wrong.empty()) return wrong;
      }
      return "";
    }
    if (keyword == "required") {
      for (const Json& name : rule) {
        if (!value.contains(name.get<std::string>())) return at + ": lacks " + name.dump();
      }
      return "";
    }
    if (keyword == "additionalProperties" && rule == false) {
      for (const auto& [name, part] : value.items()) {
        if (!schema.at("properties").contains(name)) return at + ": has the unknown " + name;
      }
      return "";
    }
    if (keyword == "additionalProperties" && rule.is_object() && !schema.contains("properties")) {
      for (const auto& [name, part] : value.items()) {
        std::string wrong = check(rule, part, at + "." + name);
        if (!wrong.empty()) return wrong;
      }
      return "";
    }
    if (keyword == "minProperties") return value.size() >= rule.get<std::size_t>() ? "" : at + ": has too few keys";
    return at + ": the checker does not know the keyword " + keyword;
  }

  static bool is(const std::string& type, const Json& value) {
    return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
           (type == "string" && value.is_string()) || (type == "boolean" && value.is_boolean()) ||
           (type == "null" && value.is_null()) || (type == "integer" && value.is_number_integer()) ||
           (type == "number" && value.is_number());
  }

  static bool is_one_of(const Json& types, const Json& value) {
    if (types.is_string()) return is(types.get<std::string>(), value);
    return std::ranges::any_of(types, [&](const Json& type) { return is(type.get<std::string>(), value); });
  }

  [[nodiscard]] const Json& target(const std::string& reference) const {
    return document_.at(Json::json_pointer(reference.substr(1)));
  }

  const Json& document_;
};

Json operation_of(const Json& document, std::string_view id) {
  for (const auto& [path, methods] : document.at("paths").items()) {
    for (const auto& [method, operation] : methods.items()) {
      if (operation.at("operationId") == id) return operation;
    }
  }
  return nullptr;
}

std::string check_text(const Json& document, const Json& schema, std::string_view body) {
  const Json value = Json::parse(body, nullptr, false);
  if (value.is_discarded()) return "the body is no JSON: " + std::string(body.substr(0, 80));
  return Checker(document).check(schema, value, "body");
}

}  // namespace

std::string objection(std::string_view document_text, std::string_view operation_id, int status, std::string_view body,
                      std::string_view content_type) {
  const Json document = Json::parse(document_text);
  const Json operation = operation_of(document, operation_id);
  if (operation.is_null()) return "there is no operation " + std::string(operation_id);
  const Json& responses = operation.at("responses");
  const std::string key = std::to_string(status);
  const Json& response = responses.contains(key) ? responses.at(key) : responses.at("default");
  if (!response.contains("content")) return body.empty() ? "" : "a body where none belongs";
  const Json& content = response.at("content");
  if (!content.contains(content_type)) return "the content type " + std::string(content_type) + " is not named";
  const Json& schema = content.at(std::string(content_type)).at("schema");
  if (content_type != "application/json") return "";
  return check_text(document, schema, body);
}

std::string request_objection(std::string_view document_text, std::string_view operation_id, std::string_view body) {
  const Json document = Json::parse(document_text);
  const Json operation = operation_of(document, operation_id);
  if (operation.is_null() || !operation.contains("requestBody")) return "it takes no body";
  return check_text(document, operation.at("requestBody").at("content").at("application/json").at("schema"), body);
}

}  // namespace headgate::api
