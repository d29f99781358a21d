#include "api/mps_routes.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/whole_number.hpp"
#include "tenancy/share.hpp"

namespace headgate::api {
namespace {

std::uint32_t owner_of(const mps::GroupView& group) { return group.key.is_for_all() ? 0 : group.key.uid; }

Result<std::uint32_t> pid_in(const Request& request) {
  const std::string text = *request.parameter("pid");
  const auto pid = whole_number<std::uint32_t>(text);
  if (pid && *pid != 0 && *pid <= INT32_MAX) return *pid;
  return fail(ErrorCode::usage, "'" + tenancy::escape_untrusted(text) + "' is not a process number",
              "accepted: 1 to 2147483647; headgate ps lists processes");
}

}  // namespace

void add_mps_routes(http::Router& router, MpsSources sources) {
  const auto all = std::make_shared<const MpsSources>(std::move(sources));
  // Lists the caller's groups; for an administrator, all groups. Those of all users are root's: they name every user's
  // shares and processes.
  router.add("GET", "/v1/mps",
             with_caller(all->access, [all](const Request&, const Caller& caller) -> Result<Response> {
               std::string list;
               for (const mps::GroupView& group : all->groups())
                 if (caller.owns(owner_of(group))) list += (list.empty() ? "" : ",") + to_json(group);
               return json_reply("[" + list + "]");
             }));
  router.add_later(
      "POST", "/v1/mps/clients/{pid}/terminate",
      with_caller(all->access, [all](const Request& request, const Caller& caller, const http::Reply& reply) {
        const auto pid = pid_in(request);
        const auto may = pid ? all->may_end(caller, *pid) : std::unexpected(pid.error());
        if (!may) return reply(error_response(may.error()));
        all->take_off(static_cast<pid_t>(*pid), [reply](const Result<bool>& done) {
          reply(done ? json_reply(nlohmann::ordered_json{{"client", *done}}.dump()) : error_response(done.error()));
        });
      }));
}

std::string to_json(const mps::GroupView& group) {
  std::set<std::string> shares;
  std::vector<std::uint32_t> holders;
  for (const mps::Holder& holder : group.holders) shares.insert(holder.share), holders.push_back(holder.process.pid);
  return nlohmann::ordered_json{{"uuid", group.key.uuid},
                                {"owner_uid", owner_of(group)},
                                {"users", group.key.is_for_all() ? "all" : "owner"},
                                {"daemon_pid", group.daemon_pid},
                                {"state", mps::word_of(group.state)},
                                {"percent", group.settings.percent},
                                {"shares", shares},
                                {"holders", holders},
                                {"clients", group.clients},
                                {"servers", group.servers},
                                {"restarts", group.restarts}}
      .dump();
}

}  // namespace headgate::api
