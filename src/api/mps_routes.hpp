// /v1/mps of the control socket: the MPS control daemons that headgate runs, and detaching a client from its server.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/access.hpp"
#include "http/router.hpp"
#include "mps/manager.hpp"

namespace headgate::api {

struct MpsSources {
  const CurrentAccess& access;
  std::function<std::vector<mps::GroupView>()> groups;
  // `done` may be called on any thread.
  std::function<void(pid_t client, std::function<void(Result<bool>)> done)> take_off;
  // Checks whether the caller may end this process. On the loop's thread.
  std::function<Result<void>(const node::Caller& caller, std::uint32_t pid)> may_end;
};

// For the loop's thread.
void add_mps_routes(http::Router& router, MpsSources sources);

[[nodiscard]] std::string to_json(const mps::GroupView& group);

}  // namespace headgate::api
