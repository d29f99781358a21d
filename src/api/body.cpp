#include "api/body.hpp"

#include <map>

#include "base/joined.hpp"
#include "snapshot/share_request.hpp"
#include "tenancy/share.hpp"

namespace headgate::api {
namespace {

using Fields = std::vector<BodyField>;
using enum FieldType;

constexpr std::string_view kDurationOrNone = "30s, 5m, 2h, 7d or none";
constexpr std::string_view kNames = "names or numbers";

using snapshot::ShareRequest;

FieldType type_of(const snapshot::ShareAttribute& attribute, const ShareRequest::Text&) {
  return attribute.takes_number ? text_or_whole : text;
}
FieldType type_of(const snapshot::ShareAttribute&, const ShareRequest::Flag&) { return flag; }
FieldType type_of(const snapshot::ShareAttribute&, const ShareRequest::Names&) { return texts; }

// `all`: those too that a share keeps for life.
Fields share_fields(bool all) {
  Fields fields;
  ShareRequest any;
  snapshot::each_attribute(any, [&](const snapshot::ShareAttribute& attribute, const auto& field) {
    if (attribute.fixed && !all) return;
    const bool required = attribute.key == "name";
    fields.push_back({attribute.key, type_of(attribute, field), attribute.meaning, attribute.accepted, required});
  });
  return fields;
}

Fields gpu_change() {
  return {{"policy", text, "how shares that want it divide it",
           "fair, priority, off, or default: as the configuration says", true},
          {"void_promises", flag,
           "whether promises on it may be void from then on; else that is refused (409) with these promises",
           "true or false"}};
}

Fields quota() {
  return {
      {"user", text_or_whole, "whose shares", kNames},
      {"group", text_or_whole, "the shares of whose members", kNames},
      {"everyone", flag, "every user's shares but root's; limit by limit, a user's own goes before it", "true"},
      {"mem", text, "memory of all shares together", "24GiB, 24Gi, 24G or 24GB, or none"},
      {"compute", text, "ceilings of all shares together, 100% for each GPU", "50%, 200%, or none"},
      {"shares", text_or_whole, "how many shares", "a whole number, or none"},
      {"ttl", text, "how long a share may live at most", kDurationOrNone},
      {"weight", text_or_whole, "the largest weight of a share; 100 for users where no quota says more",
       "1 to 1000, or none"},
      {"class", text, "the highest class of a share; normal for users where no quota says more",
       "best-effort, normal, latency or none"},
  };
}

Fields power_fields(BodyKind kind) {
  Fields all = {{"gpus", gpus, "which GPUs", "indices or UUIDs, or \"all\"", true},
                {"dry_run", flag, "whether only to tell what would change", "true or false"}};
  if (kind == BodyKind::power_reset) return all;
  all.push_back({"settings", power_settings, "what to set", "an object; not beside profile"});
  all.push_back({"profile", text, "a profile to set", "a name of GET /v1/power/profiles"});
  if (kind == BodyKind::power_settings) return all;
  all.push_back({"holder_pid", whole, "the process with which the lease ends", "a process of the caller's"});
  all.push_back({"ttl_s", whole, "after how many seconds without a heartbeat it ends", "1 to 2592000"});
  return all;
}

struct Body {
  std::string_view schema;
  Fields fields;
};

const Body& body_of(BodyKind kind) {
  static const std::map<BodyKind, Body> all = {
      {BodyKind::none, {}},
      {BodyKind::anything, {}},
      {BodyKind::share_request, {"ShareRequest", share_fields(true)}},
      {BodyKind::share_change, {"ShareChange", share_fields(false)}},
      {BodyKind::share_changes, {"ShareChanges", share_fields(false)}},
      {BodyKind::quota, {"QuotaRequest", quota()}},
      {BodyKind::gpu_change, {"GpuChange", gpu_change()}},
      {BodyKind::power_settings, {"PowerSettingsRequest", power_fields(BodyKind::power_settings)}},
      {BodyKind::power_reset, {"PowerResetRequest", power_fields(BodyKind::power_reset)}},
      {BodyKind::power_lease, {"PowerLeaseRequest", power_fields(BodyKind::power_lease)}},
  };
  return all.at(kind);
}

}  // namespace

std::string_view schema_name(BodyKind kind) { return body_of(kind).schema; }
const std::vector<BodyField>& fields(BodyKind kind) { return body_of(kind).fields; }
std::string field_names(BodyKind kind) { return joined(fields(kind), ", ", &BodyField::name); }

Result<bool> flag_in(const http::Request& request, std::string_view name) {
  const std::string* said = request.query_value(name);
  if (said == nullptr || *said == "0" || *said == "false") return false;
  if (*said == "1" || *said == "true") return true;
  return fail(ErrorCode::usage, std::string(name) + "='" + tenancy::escape_untrusted(*said) + "' is neither yes nor no",
              "accepted: " + std::string(kAcceptedFlag));
}

}  // namespace headgate::api
