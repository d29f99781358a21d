// /v1/power/leases of the control socket: settings of GPUs that end with their holder.
#pragma once

#include <functional>

#include "api/access.hpp"
#include "http/router.hpp"
#include "power/lease_keeper.hpp"

namespace headgate::api {

// Whether the caller may have this lease: its GPUs, their values, and its holder. On the loop's thread.
using MayLease = std::function<Result<void>(const http::Peer& peer, const node::Caller&, const power::LeaseRequest&)>;

// Adds GET and POST of /v1/power/leases, DELETE of /v1/power/leases/{id} and POST of /v1/power/leases/{id}/heartbeat. An administrator
// sees and ends all leases, others their own. `keeper` and `access` must outlive the router.
void add_lease_routes(http::Router& router, power::LeaseKeeper& keeper, const CurrentAccess& access,
                      MayLease may_lease);

}  // namespace headgate::api
