#include "api/body.hpp"

#include <algorithm>
#include <iterator>

#include "base/joined.hpp"
#include "guest/grant/environment.hpp"
#include "guest/grant/select.hpp"
#include "guest/grant/size.hpp"

namespace headgate::api {
namespace {

using Fields = std::vector<BodyField>;
using enum FieldType;

constexpr std::string_view kDurationOrNone = "30s, 5m, 2h, 7d or none";
constexpr std::string_view kNames = "names or numbers";
constexpr std::string_view kNamesOrNone = "names or numbers, or none alone";

// Fields accepted both when a share is created and when it is changed.
Fields share_fields() {
  const std::string_view memory = grant::accepted_memory(grant::Dialect::headgate);
  const std::string_view compute = grant::accepted_compute(grant::Dialect::headgate);
  return {
      {"mem", text, "memory limit on each of its GPUs; none: no limit", memory},
      {"host_mem", text, "host memory that stands in for the GPU's past the limit", memory},
      {"compute", text, "part of each GPU's time that is promised; the ceiling too, where the share has no burst",
       compute},
      {"burst", text,
       "ceiling above what is promised, while others leave time; none: no other than that; a change that does not name "
       "it leaves it",
       compute},
      {"weight", text_or_whole, "its part of what is left, against the weights of others", "1 to 1000"},
      {"class", text, "which share goes first if several want the GPU", "best-effort, normal or latency"},
      {"ttl", text, "when it ends by itself", kDurationOrNone},
      {"idle_notice", text, "after how long without GPU work an event says so", kDurationOrNone},
      {"freeze_after", text, "after how long without a call of theirs its programs move their memory to the host",
       kDurationOrNone},
      {"admit", text, "what decides on a process that wants to join",
       "now, or ask: an outside scheduler, over /v1/channel/scheduler"},
      {"on_oom", text, "what becomes of an allocation for which there is no room", "fail, wait or wait=30s (up to 1h)"},
      {"overcommit", flag, "whether it may be committed what is committed already", "true or false"},
      {"oversubscribe", flag,
       "whether programs see its host memory as the card's, and mem may be more than the card has: the rest is host "
       "memory",
       "true or false"},
      {"everyone", flag, "whether anybody may enter it", "true or false"},
      {"void_promises", flag,
       "allow class best-effort with a promise on a GPU under policy priority; otherwise that is refused "
       "(409) with the promises that would be void",
       "true or false"},
      {"until_empty", flag, "whether it ends with its last process", "true or false"},
      {"users", texts, "users that may join it besides its owner", kNamesOrNone},
      {"groups", texts, "groups whose members may join it", kNamesOrNone},
  };
}

Fields share_request() {
  Fields all = {
      {"name", text, "what it is called", grant::accepted(grant::Syntax::share_name), true},
      {"gpu", text, "which GPUs it covers; auto where nothing is said", grant::accepted_selectors()},
      {"gang", text, "shares of one owner and gang have their turns together", "a name, or none"},
      {"isolation", text,
       "how its programs have the GPU beside others: in turns, as clients of an MPS server, or in time slices",
       "hook, mps or timeslice"},
      {"fail_policy", text, "what happens to launches that cannot be measured", "open or closed"},
  };
  std::ranges::copy(share_fields(), std::back_inserter(all));
  return all;
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
  static const Fields nothing, of_request = share_request(), of_change = share_fields(), of_quota = quota(),
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
