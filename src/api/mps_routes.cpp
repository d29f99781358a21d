#include "api/mps_routes.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/whole_number.hpp"
#include "tenancy/share.hpp"

namespace headgate::api {
namespace {

using http::Request;
using http::Response;

std::uint32_t owner_of(const mps::GroupView& group) { return group.key.is_for_all() ? 0 : group.key.uid; }

}  // namespace

struct MpsRoutes::Impl {
  explicit Impl(MpsSources s) : sources(std::move(s)) {}

  // Lists the caller's groups; for an administrator, all groups. Those of all users are root's: they name every user's
  // shares and processes.
  Response list(const Request& request) const {
    const auto caller = caller_of(request, *sources.access.now());
    if (!caller) return http::error_response(caller.error());
    std::string all;
    for (const mps::GroupView& group : sources.groups())
      if (caller->owns(owner_of(group))) all += (all.empty() ? "" : ",") + to_json(group);
    return http::json_reply("[" + all + "]");
  }

  void take_off(const Request& request, const http::Reply& reply) const {
    const auto caller = caller_of(request, *sources.access.now());
    if (!caller) return reply(http::error_response(caller.error()));
    const std::string text = *request.parameter("pid");
    const auto pid = whole_number<std::uint32_t>(text);
    if (!pid || *pid == 0 || *pid > INT32_MAX)
      return reply(
          http::error_response({ErrorCode::usage, "'" + tenancy::escape_untrusted(text) + "' is not a process number",
                                "accepted: 1 to 2147483647; headgate ps lists processes"}));
    if (const auto may = sources.may_end(*caller, *pid); !may) return reply(http::error_response(may.error()));
    sources.take_off(static_cast<pid_t>(*pid), [reply](const Result<bool>& done) {
      reply(done ? http::json_reply(nlohmann::ordered_json{{"client", *done}}.dump())
                 : http::error_response(done.error()));
    });
  }

  const MpsSources sources;
};

MpsRoutes::MpsRoutes(MpsSources sources) : impl_(std::make_shared<Impl>(std::move(sources))) {}
MpsRoutes::~MpsRoutes() = default;

void MpsRoutes::add_routes(http::Router& router) {
  const auto self = impl_;
  router.add("GET", "/v1/mps", [self](const Request& request) { return self->list(request); });
  router.add_later("POST", "/v1/mps/clients/{pid}/terminate",
                   [self](const Request& request, const http::Reply& reply) { self->take_off(request, reply); });
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
