#include "api/power_leases.hpp"

#include <utility>

#include "base/utf8.hpp"

namespace headgate::api {
namespace {

using http::Request;
using http::Response;

Response lease_response(std::string body, int status = 200) {
  Response response;
  response.status = status;
  response.body = std::move(body) + "\n";
  return response;
}

struct LeaseRoutes {
  power::LeaseKeeper& keeper;
  const CurrentAccess& access;
  MayLease may_lease;

  // A lease of the caller's. Others' are not there for it.
  Result<std::string> own_lease(const Request& request) const {
    const node::Caller caller = TRY(caller_of(request, *access.now()));
    const std::string id = *request.parameter("id");
    const auto lease = keeper.find(id);
    if (!lease || !caller.owns(lease->owner_uid))
      return fail(ErrorCode::not_found, "there is no lease '" + printable(id, 80) + "' of yours",
                  "GET /v1/power/leases lists them");
    return id;
  }

  Response list(const Request& request) const {
    const auto caller = caller_of(request, *access.now());
    if (!caller) return http::error_response(caller.error());
    std::vector<power::Lease> own;
    for (power::Lease& lease : keeper.list())
      if (caller->owns(lease.owner_uid)) own.push_back(std::move(lease));
    return lease_response(power::leases_json(own));
  }

  void create(const Request& request, const http::Reply& reply) const {
    const auto caller = caller_of(request, *access.now());
    if (!caller) return reply(http::error_response(caller.error()));
    if (!caller->known())
      return reply(
          http::error_response({ErrorCode::denied, "a lease needs a known caller", "ask over the control socket"}));
    auto wanted = power::parse_lease_request(request.body);
    if (!wanted) return reply(http::error_response(wanted.error()));
    if (auto may = may_lease(request.peer, *caller, *wanted); !may) return reply(http::error_response(may.error()));
    keeper.create(std::move(*wanted), caller->uid, [reply](Result<power::Lease> lease) {
      reply(lease ? lease_response(power::lease_json(*lease), 201) : http::error_response(lease.error()));
    });
  }

  void end(const Request& request, const http::Reply& reply) const {
    const auto id = own_lease(request);
    if (!id) return reply(http::error_response(id.error()));
    keeper.end(*id,
               [reply](Result<void> done) { reply(done ? lease_response("{}") : http::error_response(done.error())); });
  }

  Response prolong(const Request& request) const {
    const auto id = own_lease(request);
    if (!id) return http::error_response(id.error());
    const auto lease = keeper.prolong(*id);
    return lease ? lease_response(power::lease_json(*lease)) : http::error_response(lease.error());
  }
};

}  // namespace

void add_lease_routes(http::Router& router, power::LeaseKeeper& keeper, const CurrentAccess& access,
                      MayLease may_lease) {
  const LeaseRoutes routes{keeper, access, std::move(may_lease)};
  router.add("GET", "/v1/power/leases", [routes](const Request& request) { return routes.list(request); });
  router.add_later("POST", "/v1/power/leases",
                   [routes](const Request& request, const http::Reply& reply) { routes.create(request, reply); });
  router.add_later("DELETE", "/v1/power/leases/{id}",
                   [routes](const Request& request, const http::Reply& reply) { routes.end(request, reply); });
  // It writes the file.
  router.add(
      "POST", "/v1/power/leases/{id}/heartbeat", [routes](const Request& request) { return routes.prolong(request); },
      http::Runs::on_pool);
}

}  // namespace headgate::api
