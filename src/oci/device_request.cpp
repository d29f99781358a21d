#include "oci/device_request.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

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
      TRY(take_field(key, value, at + "." + printable(key, 80), request));
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

}  // namespace headgate::oci
