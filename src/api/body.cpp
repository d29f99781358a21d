#include "api/body.hpp"

#include "base/joined.hpp"
#include "snapshot/share_request.hpp"

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

}  // namespace

std::string_view schema_name(BodyKind kind) {
  switch (kind) {
    case BodyKind::none:
    case BodyKind::anything: break;
    case BodyKind::share_request: return "ShareRequest";
    case BodyKind::share_change: return "ShareChange";
    case BodyKind::share_changes: return "ShareChanges";
    case BodyKind::quota: return "QuotaRequest";
    case BodyKind::gpu_change: return "GpuChange";
    case BodyKind::power_settings: return "PowerSettingsRequest";
    case BodyKind::power_reset: return "PowerResetRequest";
    case BodyKind::power_lease: return "PowerLeaseRequest";
  }
  return "";
}

const std::vector<BodyField>& fields(BodyKind kind) {
  static const Fields nothing, of_request = share_fields(true), of_change = share_fields(false), of_quota = quota(),
                               of_gpu = gpu_change(), of_power = power_fields(BodyKind::power_settings),
                               of_reset = power_fields(BodyKind::power_reset),
                               of_lease = power_fields(BodyKind::power_lease);
  switch (kind) {
    case BodyKind::none:
    case BodyKind::anything: break;
    case BodyKind::share_request: return of_request;
    case BodyKind::share_change:
    case BodyKind::share_changes: return of_change;
    case BodyKind::quota: return of_quota;
    case BodyKind::gpu_change: return of_gpu;
    case BodyKind::power_settings: return of_power;
    case BodyKind::power_reset: return of_reset;
    case BodyKind::power_lease: return of_lease;
  }
  return nothing;
}

std::string field_names(BodyKind kind) { return joined(fields(kind), ", ", &BodyField::name); }

}  // namespace headgate::api
