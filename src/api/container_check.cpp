#include "api/container_check.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/whole_number.hpp"
#include "tenancy/share.hpp"

namespace headgate::api {
namespace {

Result<std::uint32_t> id_from(std::string_view name, std::string_view text) {
  if (const auto id = whole_number<std::uint32_t>(text)) return *id;
  return fail(ErrorCode::usage, std::string(name) + "='" + tenancy::escape_untrusted(text) + "' is no number of one",
              "accepted: 0 to 4294967295");
}

struct ContainerUser {
  tenancy::Visitor visitor;
  std::vector<std::uint32_t> groups;
};

// The numbers of the container's user; what is left out is the caller's.
Result<ContainerUser> container_user(const http::Request& request, const node::Caller& caller) {
  ContainerUser user{.visitor = {.uid = caller.uid}, .groups = caller.gids};
  const std::string* const uid = request.query_value("uid");
  if (uid != nullptr) {
    user.visitor.uid = TRY(id_from("uid", *uid));
    user.groups.clear();
  }
  if (const std::string* const gid = request.query_value("gid")) user.visitor.gid = TRY(id_from("gid", *gid));
  if (const std::string* const owner = request.query_value("user_namespace_owner"))
    user.visitor.user_namespace_owner = TRY(id_from("user_namespace_owner", *owner));
  if (const std::string* const groups = request.query_value("groups")) {
    user.groups.clear();
    for (std::string_view rest = *groups; !rest.empty();) {
      const auto end = std::min(rest.find(','), rest.size());
      user.groups.push_back(TRY(id_from("groups", rest.substr(0, end))));
      rest.remove_prefix(std::min(rest.size(), end + 1));
    }
  }
  if (!caller.administrator && !request.query.empty())
    return fail(ErrorCode::denied, "only an administrator asks for another user's container",
                "leave uid, gid, groups and user_namespace_owner out");
  return user;
}

}  // namespace

Result<http::Response> container_check(const http::Request& request, const node::Caller& caller, node::Node& node) {
  ContainerUser user = TRY(container_user(request, caller));
  user.visitor.groups = user.groups;
  TRY(node.access.check_container(*request.parameter("name"), user.visitor, caller));
  return http::json_reply("{}");
}

}  // namespace headgate::api
