#include "api/query.hpp"

#include "tenancy/share.hpp"

namespace headgate::api {

Result<bool> flag_in(const http::Request& request, std::string_view name) {
  const std::string* said = request.query_value(name);
  if (said == nullptr || *said == "0" || *said == "false") return false;
  if (*said == "1" || *said == "true") return true;
  return fail(ErrorCode::usage, std::string(name) + "='" + tenancy::escape_untrusted(*said) + "' is neither yes nor no",
              "accepted: " + std::string(kAcceptedFlag));
}

}  // namespace headgate::api
