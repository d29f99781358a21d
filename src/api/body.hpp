// What requests have: fields of bodies, named after the command's options ("mem": "8GiB" is --mem 8GiB). The OpenAPI
// document and the hints of error messages are made from these lists. The parsers are in share_request_json.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "http/message.hpp"

namespace headgate::api {

// share_changes: an object that maps each share's name to a share_change.
enum class BodyKind {
  none,
  anything,
  share_request,
  share_change,
  share_changes,
  quota,
  gpu_change,
  power_settings,
  power_reset,
  power_lease
};

// gpus: a list of indices and UUIDs, or "all"; power_settings: the schema with that name.
enum class FieldType { text, flag, texts, text_or_whole, whole, gpus, power_settings };

struct BodyField {
  std::string_view name;
  FieldType type;
  std::string_view meaning;
  std::string_view accepted;
  bool required = false;
};

// Returns the kind's schema name in the document, such as "ShareRequest"; empty if it has none.
[[nodiscard]] std::string_view schema_name(BodyKind kind);
[[nodiscard]] const std::vector<BodyField>& fields(BodyKind kind);
// Returns the names as text: "name, gpu, mem, ..."
[[nodiscard]] std::string field_names(BodyKind kind);

// A query parameter that is a flag.
inline constexpr std::string_view kAcceptedFlag = "1 or true; 0 or false is as if it were not there";

// Parses a boolean; false if absent. Errors: usage for any other value, so that "no" is not read as true.
[[nodiscard]] Result<bool> flag_in(const http::Request& request, std::string_view name);

}  // namespace headgate::api
