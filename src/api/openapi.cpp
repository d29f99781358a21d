#include "api/openapi.hpp"

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "snapshot/json.hpp"

namespace headgate::api {
namespace {

using Json = nlohmann::ordered_json;

Json reference(std::string_view schema) { return {{"$ref", "#/components/schemas/" + std::string(schema)}}; }

std::string words_of(std::string_view meaning, std::string_view accepted) {
  return std::string(meaning) + (accepted.empty() ? "" : "; accepted: " + std::string(accepted));
}

Json parameter_of(const Parameter& parameter) {
  Json json = {{"name", parameter.name},
               {"in", parameter.in == Place::path    ? "path"
                      : parameter.in == Place::query ? "query"
                                                     : "header"},
               {"required", parameter.required || parameter.in == Place::path},
               {"description", words_of(parameter.meaning, parameter.accepted)}};
  json["schema"] = parameter.number ? Json{{"type", "integer"}, {"minimum", 0}} : Json{{"type", "string"}};
  return json;
}

const char* reason(int status) {
  switch (status) {
    case 201: return "made";
    case 400: return "not understood: message and hint say what is accepted";
    case 403: return "the caller may not";
    case 404: return "there is no such thing";
    case 409: return "does not fit, or not in this state";
    case 500: return "not possible now: message and hint say why";
    case 410: return "it is over";
    case 429: return "a bound is met: try again later";
    case 503: return "something that is needed does not answer, or not at this moment: try again";
    default: return "the answer";
  }
}

Json content_of(const Reply& reply) {
  Json schema = Json::object();
  if (!reply.schema.empty()) schema = reference(reply.schema);
  else if (!reply.content_type.starts_with("application/json")) schema = {{"type", "string"}};
  if (reply.list) schema = {{"type", "array"}, {"items", schema}};
  return {{"schema", schema}};
}

Json responses_of(const Route& route) {
  Json all = Json::object();
  for (const Reply& reply : route.replies) {
    Json& response = all[std::to_string(reply.status)];
    if (response.is_null()) response = {{"description", reason(reply.status)}};
    response["content"][reply.content_type] = content_of(reply);
  }
  const Json error = {{"application/json", {{"schema", reference("Error")}}}};
  for (const int status : route.errors)
    all[std::to_string(status)] = {{"description", reason(status)}, {"content", error}};
  all["default"] = {{"description", "any other error"}, {"content", error}};
  return all;
}

Json operation_of(const Route& route) {
  Json json = {{"operationId", route.id}, {"summary", route.summary}};
  for (const Parameter& parameter : route.parameters) json["parameters"].push_back(parameter_of(parameter));
  if (route.body == BodyKind::anything) {
    json["requestBody"] = {{"required", false}, {"content", {{"application/json", {{"schema", Json::object()}}}}}};
  } else if (route.body != BodyKind::none) {
    bool required = false;
    for (const BodyField& field : fields(route.body)) required |= field.required;
    required |= route.body == BodyKind::share_changes;
    json["requestBody"] = {{"required", required},
                           {"content", {{"application/json", {{"schema", reference(schema_name(route.body))}}}}}};
  }
  json["responses"] = responses_of(route);
  return json;
}

Json type_schema(FieldType type) {
  switch (type) {
    case FieldType::text: return {{"type", {"string", "null"}}};
    case FieldType::flag: return {{"type", {"boolean", "null"}}};
    case FieldType::text_or_whole: return {{"type", {"string", "integer", "null"}}, {"minimum", 0}};
    case FieldType::whole: return {{"type", "integer"}, {"minimum", 1}};
    case FieldType::power_settings: return reference("PowerSettings");
    case FieldType::gpus:
      return {{"type", {"array", "string"}}, {"items", {{"type", {"string", "integer"}}, {"minimum", 0}}}};
    case FieldType::texts: return {{"type", {"array", "null"}}, {"items", {{"type", "string"}}}};
  }
  return {};
}

Json body_schema(BodyKind kind) {
  if (kind == BodyKind::share_changes)
    return {{"type", "object"},
            {"description", "what is to change of each share, under its name"},
            {"minProperties", 1},
            {"additionalProperties", reference(schema_name(BodyKind::share_change))}};
  Json properties = Json::object(), required = Json::array();
  for (const BodyField& field : fields(kind)) {
    Json& property = properties[field.name] = type_schema(field.type);
    property["description"] = words_of(field.meaning, field.accepted);
    if (field.required) required.push_back(field.name);
  }
  Json schema = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = required;
  return schema;
}

Json schemas() {
  Json all = parse_json(snapshot::schemas());
  all.update(parse_json(small_schemas()));
  for (const Route& route : routes()) {
    if (!schema_name(route.body).empty()) all[schema_name(route.body)] = body_schema(route.body);
  }
  return all;
}

}  // namespace

std::string openapi(std::string_view version) {
  Json paths = Json::object();
  for (const Route& route : routes()) {
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(c - 'A' + 'a');
    paths[route.path][method] = operation_of(route);
  }
  const Json document = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "headgated"},
        {"version", version},
        {"description",
         "The node daemon of headgate. Over its Unix socket the kernel tells the caller; over TCP, a bearer "
         "token."}}},
      {"paths", paths},
      {"components",
       {{"schemas", schemas()}, {"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
      // The empty object: the Unix socket requires no token.
      {"security", Json::array({Json::object(), Json{{"token", Json::array()}}})},
  };
  return document.dump(2) + "\n";
}

}  // namespace headgate::api
