// Parses the JSON body of a request that makes or changes a share or a quota.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "node/share_access.hpp"
#include "node/share_request.hpp"
#include "tenancy/admission.hpp"

namespace headgate::api {

// {"name": "alice", "mem": "8GiB", "compute": "50%", "users": ["bob"], ...}. Errors: usage, naming the key. An unknown
// key is an error, because a misspelt limit would otherwise mean no limit.
[[nodiscard]] Result<node::ShareRequest> share_request_from(const std::string& body);
// {"alice": {"compute": "80%"}, "bob": {"compute": "20%"}}: as above for each share, under its name. Errors: usage,
// also where no share is named.
[[nodiscard]] Result<std::vector<node::NamedRequest>> share_requests_from(const std::string& body);

// {"user": "alice" | "group": "students" | "everyone": true, "mem": "24GiB", "compute": "200%", "shares": 4, "ttl":
// "8h", "weight": 200, "class": "latency"}; "none" in place of a limit takes it back. Errors: usage, also where no
// limit is named.
[[nodiscard]] Result<tenancy::QuotaChange> quota_change_from(const std::string& body);
// Whose quota a request names in its query: null and false where it does not. Only subject and id are filled.
// Errors: usage, if it names none, several, or a user or group that the machine does not know.
[[nodiscard]] Result<tenancy::Quota> quota_named(const std::string* user, const std::string* group, bool everyone);
[[nodiscard]] std::string to_json(const tenancy::Quota& quota);
// {"place": 2, "reason": "..."}
[[nodiscard]] std::string place_json(std::size_t place, const std::string& reason);
// {"policy": "fair"}: the text, not validated.
struct PolicyChange {
  std::string policy;
  bool void_promises = false;
};
[[nodiscard]] Result<PolicyChange> policy_change_from(const std::string& body);
[[nodiscard]] std::string to_json(const node::Entry& entry);

}  // namespace headgate::api
