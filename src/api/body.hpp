// What a request's body may say: objects whose fields follow the command's options ("mem": "8GiB" is --mem 8GiB). The
// lists from which the OpenAPI document and the readers' hints are made (the readers: share_request_json.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headgate::api {

// share_changes: an object with a share_change for each share that is named, under its name.
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

// gpus: a list of indices and UUIDs, or "all"; power_settings: the schema of that name.
enum class FieldType { text, flag, texts, text_or_whole, whole, gpus, power_settings };

struct BodyField {
  std::string_view name;
  FieldType type;
  std::string_view meaning;
  std::string_view accepted;
  bool required = false;
};

// The name of the kind's schema in the document: "ShareRequest"; empty where it has none.
[[nodiscard]] std::string_view schema_name(BodyKind kind);
[[nodiscard]] const std::vector<BodyField>& fields(BodyKind kind);
// "name, gpu, mem, ..."
[[nodiscard]] std::string field_names(BodyKind kind);

}  // namespace headgate::api
