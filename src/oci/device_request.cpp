#include "oci/device_request.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/utf8.hpp"
#include "oci/json_text.hpp"

namespace headgate::oci {
namespace {

constexpr JsonBounds kRequestBounds = {.bytes = 1 << 20, .depth = 8};
constexpr std::string_view kFields = "Driver, Count, DeviceIDs, Capabilities, Options";

std::unexpected<Error> refuse_at(const std::string& at, const std::string& what, const std::string& accepted = {}) {
  return fail(ErrorCode::usage, at + ": " + what, accepted.empty() ? "" : "accepted: " + accepted);
}

// Returns true for text that is safe to pass to programs: not empty and without control characters.
bool is_plain(const std::string& text) {
  return !text.empty() &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

Result<std::string> word(const Json& json, const std::string& at) {
  if (!json.is_string()) return refuse_at(at, "is no text");
  const auto& text = json.get_ref<const std::string&>();
  if (text.empty()) return refuse_at(at, "is empty");
  if (!is_plain(text)) return refuse_at(at, "'" + printable(text, 80) + "' has control characters");
  return text;
}

Result<std::vector<std::string>> word_list(const Json& json, const std::string& at) {
  std::vector<std::string> all;
  if (json.is_null()) return all;
  if (!json.is_array()) return refuse_at(at, "is no list");
  for (std::size_t i = 0; i < json.size(); ++i) all.push_back(TRY(word(json[i], at + "[" + std::to_string(i) + "]")));
  return all;
}

Result<void> take_field(const std::string& key, const Json& value, const std::string& at, DeviceRequest& out) {
  if (key == "Driver") {
    if (value.is_null() || value == "") return {};
    out.driver = TRY(word(value, at));
  } else if (key == "Count") {
    if (value.is_null()) return {};
    const bool in_range =
        value.is_number_integer() &&
        (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMaxDeviceCount));
    if (!in_range)
      return refuse_at(at, "is no count of devices", "up to " + std::to_string(kMaxDeviceCount) + ", -1 for all");
    out.count = value.get<std::int64_t>();
  } else if (key == "DeviceIDs") {
    out.ids = TRY(word_list(value, at));
  } else if (key == "Capabilities") {
    if (value.is_null()) return {};
    if (!value.is_array()) return refuse_at(at, "is no list");
    for (std::size_t i = 0; i < value.size(); ++i)
      out.capabilities.push_back(TRY(word_list(value[i], at + "[" + std::to_string(i) + "]")));
  } else if (key == "Options") {
    if (value.is_null()) return {};
    if (!value.is_object()) return refuse_at(at, "is no object");
    for (const auto& [name, text] : value.items()) {
      if (!text.is_string()) return refuse_at(at + "." + printable(name, 80), "is no text");
      out.options[name] = text.get<std::string>();
    }
  } else {
    return refuse_at(at, "is unknown", std::string(kFields));
  }
  return {};
}

}  // namespace

Result<std::vector<DeviceRequest>> read_device_requests(std::string_view text) {
  const auto json = parse_json(text, kRequestBounds);
  if (!json) return fail(ErrorCode::usage, "DeviceRequests " + json.error().message);
  std::vector<DeviceRequest> all;
  if (json->is_null()) return all;
  if (!json->is_array()) return fail(ErrorCode::usage, "DeviceRequests: is no list");
  for (std::size_t i = 0; i < json->size(); ++i) {
    const std::string at = "DeviceRequests[" + std::to_string(i) + "]";
    if (!(*json)[i].is_object()) return refuse_at(at, "is no object");
    DeviceRequest& request = all.emplace_back();
    for (const auto& [key, value] : (*json)[i].items())
      if (auto taken = take_field(key, value, at + "." + printable(key, 80), request); !taken)
        return std::unexpected(std::move(taken.error()));
  }
  return all;
}

Result<std::vector<std::string>> requested_devices(const DeviceRequest& request) {
  if (request.count != 0 && !request.ids.empty())
    return fail(ErrorCode::usage, "cannot set both Count and DeviceIDs on device request",
                "name devices as --gpus '\"device=0,1\"': without the inner quotes, the comma ends the list");
  if (request.count < 0) return std::vector<std::string>{"all"};
  std::vector<std::string> devices = request.ids;
  for (std::int64_t i = 0; i < request.count; ++i) devices.push_back(std::to_string(i));
  return devices;
}

const std::vector<std::string>* match_capabilities(const DeviceRequest& request,
                                                   const std::vector<std::string>& known) {
  const auto is_known = [&](const std::string& each) { return std::ranges::find(known, each) != known.end(); };
  const auto found =
      std::ranges::find_if(request.capabilities, [&](const auto& list) { return std::ranges::all_of(list, is_known); });
  return found == request.capabilities.end() ? nullptr : &*found;
}

namespace {

// Splits a CSV record into fields: a quoted field may contain commas, and "" for a quote.
Result<std::vector<std::string>> csv_fields(std::string_view text) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && text.substr(i + 1).starts_with('"')) fields.back() += '"', ++i;
    else if (quoted && c == '"') quoted = false;
    else if (!quoted && c == '"' && fields.back().empty()) quoted = true;
    else if (!quoted && c == '"') return fail(ErrorCode::usage, "a quote in the middle of a field");
    else if (!quoted && c == ',') fields.emplace_back();
    else fields.back() += c;
  }
  if (quoted) return fail(ErrorCode::usage, "a quote without an end");
  return fields;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> all(1);
  for (const char c : text) c == ',' ? all.emplace_back() : all.back() += c, static_cast<void>(0);
  return all;
}

Result<std::int64_t> count_of(const std::string& text) {
  if (text == "all") return -1;
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count > kMaxDeviceCount)
    return fail(ErrorCode::usage, "--gpus '" + printable(text, 80) + "': value must be either \"all\" or an integer");
  return count;
}

}  // namespace

Result<DeviceRequest> read_gpus_option(std::string_view value) {
  const auto fields = csv_fields(value);
  if (!fields) return fail(ErrorCode::usage, "--gpus '" + printable(value, 80) + "': " + fields.error().message);
  DeviceRequest request;
  std::map<std::string, std::string> seen;
  for (const std::string& field : *fields) {
    const auto equals = field.find('=');
    const std::string key = equals == std::string::npos ? "count" : field.substr(0, equals);
    const std::string text = equals == std::string::npos ? field : field.substr(equals + 1);
    if (!seen.emplace(key, text).second)
      return fail(ErrorCode::usage,
                  "--gpus '" + printable(value, 80) + "': '" + printable(key, 40) + "' is there twice");
    if (key == "count") request.count = TRY(count_of(text));
    else if (key == "device") request.ids = split(text);
    else if (key == "driver") request.driver = text;
    else if (key == "capabilities") request.capabilities = {split(text)};
    else if (key == "options") {
      for (const std::string& option : split(text))
        request.options[option.substr(0, option.find('='))] =
            option.contains('=') ? option.substr(option.find('=') + 1) : std::string();
    } else {
      return fail(ErrorCode::usage,
                  "--gpus '" + printable(value, 80) + "': unexpected key '" + printable(key, 40) + "'",
                  "accepted: device, count, capabilities, driver, options");
    }
  }
  if (!seen.contains("count") && request.ids.empty()) request.count = 1;
  if (request.capabilities.empty()) request.capabilities = {{}};
  request.capabilities[0].emplace_back("gpu");
  if (auto both = requested_devices(request); !both) return std::unexpected(std::move(both.error()));
  return request;
}

}  // namespace headgate::oci
