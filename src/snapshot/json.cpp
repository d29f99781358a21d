#include "snapshot/json.hpp"

#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace headgate::snapshot {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

// Former names of renamed fields, written and accepted beside the new ones for one release. Empty for all others.
constexpr std::string_view former_name(std::string_view name) {
  if (name == "memory_committed_bytes") return "memory_sold_bytes";
  if (name == "memory_uncommitted_bytes") return "memory_unsold_bytes";
  if (name == "compute_committed_ratio") return "compute_sold_ratio";
  if (name == "compute_uncommitted_ratio") return "compute_unsold_ratio";
  if (name == "overcommit") return "over_sell";
  if (name == "freeze") return "halt";
  return {};
}

template <typename T>
Json write(const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value ? write(*value) : Json();
  } else if constexpr (IsVector<T>::value) {
    Json list = Json::array();
    for (const auto& one : value) list.push_back(write(one));
    return list;
  } else if constexpr (std::is_arithmetic_v<T> || std::same_as<T, std::string>) {
    return value;
  } else {
    Json object = Json::object();
    each_field(const_cast<T&>(value), [&object](const char* name, const auto& field) {
      object[name] = write(field);
      if (const auto former = former_name(name); !former.empty()) object[std::string(former)] = object[name];
    });
    return object;
  }
}

Error unfit(const std::string& path, std::string_view expected) {
  return {ErrorCode::usage, (path.empty() ? "the whole" : path) + ": expected " + std::string(expected), ""};
}

// Returns the first mismatch, if any.
template <typename T>
std::optional<Error> read(const Json& json, const std::string& path, T& out) {
  if constexpr (IsOptional<T>::value) {
    if (json.is_null()) {
      out.reset();
      return std::nullopt;
    }
    return read(json, path, out.emplace());
  } else if constexpr (IsVector<T>::value) {
    if (!json.is_array()) return unfit(path, "a list");
    out.clear();
    for (std::size_t i = 0; i < json.size(); ++i) {
      if (auto error = read(json[i], path + "[" + std::to_string(i) + "]", out.emplace_back())) return error;
    }
  } else if constexpr (std::same_as<T, bool>) {
    if (!json.is_boolean()) return unfit(path, "true or false");
    out = json.get<bool>();
  } else if constexpr (std::floating_point<T>) {
    if (!json.is_number()) return unfit(path, "a number");
    out = json.get<T>();
  } else if constexpr (std::unsigned_integral<T>) {
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() > std::numeric_limits<T>::max())
      return unfit(path, "a whole number of 0 to " + std::to_string(std::numeric_limits<T>::max()));
    out = json.get<T>();
  } else if constexpr (std::same_as<T, std::string>) {
    if (!json.is_string()) return unfit(path, "a text");
    out = json.get<std::string>();
  } else {
    if (!json.is_object()) return unfit(path, "an object");
    std::optional<Error> first;
    each_field(out, [&](const char* name, auto& field) {
      if (first) return;
      auto found = json.find(name);
      if (const auto former = former_name(name); found == json.end() && !former.empty()) found = json.find(former);
      if (found != json.end()) first = read(*found, path.empty() ? name : path + "." + name, field);
    });
    return first;
  }
  return std::nullopt;
}

template <typename T>
Json schema_of() {
  if constexpr (IsOptional<T>::value) {
    Json one = schema_of<typename T::value_type>();
    if (one.contains("type")) {
      one["type"] = Json::array({one["type"], "null"});
      return one;
    }
    return {{"oneOf", {one, {{"type", "null"}}}}};
  } else if constexpr (IsVector<T>::value) {
    return {{"type", "array"}, {"items", schema_of<typename T::value_type>()}};
  } else if constexpr (std::same_as<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::floating_point<T>) {
    return {{"type", "number"}};
  } else if constexpr (std::unsigned_integral<T>) {
    return {{"type", "integer"}, {"minimum", 0}};
  } else if constexpr (std::same_as<T, std::string>) {
    return {{"type", "string"}};
  } else {
    return {{"$ref", std::string("#/components/schemas/") + name_of(static_cast<const T*>(nullptr))}};
  }
}

// Returns the allowed words of a field with a fixed set of them, in any struct; null for other fields.
Json words_of(std::string_view field) {
  if (field == "state")
    return {"ok",     "throttled", "takes turns",         "full",    "idle",  "frozen",
            "paused", "draining",  "paused and draining", "freeing", "empty", "broken"};
  if (field == "level") return {"observe", "hook", "hook+container", "hook+driver", "mps", "mig", "unknown"};
  if (field == "severity") return {"info", "warn", "error"};
  return nullptr;
}

template <typename T>
void add_schema(Json& all, T of) {
  Json properties = Json::object(), required = Json::array();
  each_field(of, [&](const char* name, auto& field) {
    properties[name] = schema_of<std::remove_reference_t<decltype(field)>>();
    if (Json words = words_of(name); !words.is_null()) properties[name]["enum"] = std::move(words);
    required.push_back(name);
    if (const auto former = former_name(name); !former.empty()) {
      properties[std::string(former)] = properties[name];
      properties[std::string(former)]["deprecated"] = true;
    }
  });
  all[name_of(&of)] = {
      {"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}};
}

}  // namespace

template <typename T>
std::string to_json(const T& value) {
  if constexpr (IsVector<T>::value) {
    // One at a time: a JSON tree of thousands of events is many times their text, and the daemon would keep the memory.
    std::string all = "[";
    for (const auto& each : value) {
      if (all.size() > 1) all += ',';
      all += to_json(each);
    }
    return all + ']';
  } else {
    return write(value).dump(-1, ' ', true, Json::error_handler_t::replace);
  }
}

template <typename T>
Result<T> from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return fail(ErrorCode::usage, "this is no JSON: " + std::string(text.substr(0, 80)));
  T value;
  if (auto error = read(json, "", value)) return std::unexpected(*error);
  return value;
}

std::string schemas() {
  Json all = Json::object();
  const auto add = [&all](auto... structs) { (add_schema(all, structs), ...); };
  add(Node(), XidCount(), MigInstance(), Gpu(), Refusal(), LaunchDelay(), HookErrors(), ShareDevice(), Share(),
      ProcessDevice(), Freeze(), Process(), Event(), Waiting(), Snapshot());
  return all.dump();
}

#define HEADGATE_JSON(T)                     \
  template std::string to_json<T>(const T&); \
  template Result<T> from_json<T>(std::string_view);
HEADGATE_JSON(Node)
HEADGATE_JSON(Gpu)
HEADGATE_JSON(Share)
HEADGATE_JSON(Process)
HEADGATE_JSON(Event)
HEADGATE_JSON(Snapshot)
HEADGATE_JSON(std::vector<Gpu>)
HEADGATE_JSON(std::vector<Share>)
HEADGATE_JSON(std::vector<Process>)
HEADGATE_JSON(std::vector<Event>)
HEADGATE_JSON(std::vector<Waiting>)
#undef HEADGATE_JSON

}  // namespace headgate::snapshot
