#include "api/share_routes.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "api/access.hpp"
#include "api/body.hpp"
#include "api/share_request_json.hpp"
#include "base/now.hpp"
#include "base/whole_number.hpp"
#include "snapshot/json.hpp"

namespace headgate::api {
namespace {

ShareRoutes::Answer share_in(const Snapshot& snapshot, const std::string& name, const Caller& caller, int status) {
  for (const auto& share : snapshot.shares)
    if (share.name == name && caller.sees(share.owner_uid, share.uids, share.gids))
      return json_reply(snapshot::to_json(share), status);
  return fail(ErrorCode::not_found, "there is no share '" + tenancy::escape_untrusted(name) + "' of yours",
              "GET /v1/shares (headgate share ls) lists them");
}

const std::string& name_in(const Request& request) { return *request.parameter("name"); }

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
Result<ContainerUser> container_user(const Request& request, const Caller& caller) {
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

// A client waiting for room; `time` is its deadline.
struct ShareRoutes::Waiter {
  explicit Waiter(http::Loop& on) : time(on) {}
  void end(const char* name, const Response& how) const {
    stream->push({.name = name, .data = how.body, .id = {}});
    stream->finish();
  }

  std::shared_ptr<http::EventStream> stream = std::make_shared<http::EventStream>();
  http::Timer time;
  std::string reason;  // why there is no room, as the node said last
};

// Returns the shares as the ledgers show them after an operation, without waiting for the driver.
Snapshot ShareRoutes::ledgers_now() {
  fresh_.changed();
  observe::JoinInput input;
  node_.snapshots.add_ledgers(input);
  input.taken_unix_ns = unix_now_ns();
  input.driver.gpus = observer_.latest()->gpus;
  Snapshot snapshot = observe::join(input, {});
  node_.snapshots.finish(snapshot);
  return snapshot;
}

ShareRoutes::Answer ShareRoutes::share_now(const std::string& name, const Caller& caller, int status) {
  return share_in(ledgers_now(), name, caller, status);
}

ShareRoutes::Answer ShareRoutes::get_share(const Request& request, const Caller& caller) {
  return share_in(*fresh_.get(), name_in(request), caller, 200);
}

ShareRoutes::Answer ShareRoutes::create_share(const Request& request, const Caller& caller) {
  const node::ShareRequest order = TRY(share_request_from(request.body));
  TRY(node_.service.create(order, caller, observer_.latest()->gpus));
  return share_now(*order.name, caller, 201);
}

ShareRoutes::Answer ShareRoutes::wait_for_room(const Request& request, const Caller& caller) {
  const node::ShareRequest order = TRY(share_request_from(request.body));
  const std::string* const wait = request.query_value("wait");
  std::optional<std::chrono::seconds> most;
  if (wait != nullptr) most = TRY(node::parse_duration("wait", *wait));
  const auto waiter = std::make_shared<Waiter>(loop_);
  const std::uint64_t ticket = TRY(node_.service.wait_for_room(
      order, caller, observer_.latest()->gpus,
      {.moved =
           [weak = std::weak_ptr(waiter)](std::size_t number, const std::string& reason) {
             const auto waits = weak.lock();
             if (waits == nullptr) return;
             waits->reason = reason;
             waits->stream->push({.name = "queue.waiting", .data = place_json(number, reason), .id = {}});
           },
       .settled =
           [weak = weak_from_this(), stream = waiter->stream, name = order.name.value_or(""),
            caller](const Result<void>& made) {
             const auto self = weak.lock();
             if (self == nullptr) return;
             const Answer share = made ? self->share_now(name, caller, 201) : std::unexpected(made.error());
             stream->push({.name = made ? "queue.made" : "queue.refused",
                           .data = share ? share->body : error_response(share.error()).body,
                           .id = {}});
             stream->finish();
           }}));
  const auto leave = [weak = weak_from_this(), ticket] {
    if (const auto self = weak.lock()) self->leave_queue(ticket);
  };
  if (most) {
    waiter->time.start(*most, [leave, weak = std::weak_ptr(waiter), text = *wait] {
      if (const auto left = weak.lock())
        left->end("queue.refused", error_response({ErrorCode::no_capacity,
                                                   "there was no room in " + tenancy::escape_untrusted(text) +
                                                       (left->reason.empty() ? "" : ": " + left->reason),
                                                   "wait for longer, or ask for less (headgate free says what fits)"}));
      leave();
    });
  }
  Response response;
  response.stream = waiter->stream;
  waiters_[ticket] = waiter;
  waiter->stream->on_close(leave);
  return response;
}

// Connections may outlive the node briefly while the daemon shuts down.
void ShareRoutes::leave_queue(std::uint64_t ticket) {
  if (closed_) return;
  node_.queue.leave(ticket);
  waiters_.erase(ticket);
}

ShareRoutes::Answer ShareRoutes::change_share(const Request& request, const Caller& caller) {
  const node::ShareRequest order = TRY(share_request_from(request.body));
  TRY(node_.service.set(name_in(request), order, caller, observer_.latest()->gpus));
  return share_now(name_in(request), caller);
}

ShareRoutes::Answer ShareRoutes::change_shares(const Request& request, const Caller& caller) {
  const std::vector<node::NamedRequest> orders = TRY(share_requests_from(request.body));
  TRY(node_.service.set(orders, caller, observer_.latest()->gpus));
  Snapshot snapshot = ledgers_now();
  std::erase_if(snapshot.shares, [&](const snapshot::Share& share) {
    return std::ranges::find(orders, share.name, &node::NamedRequest::first) == orders.end();
  });
  return json_reply(snapshot::to_json(visible(snapshot, caller).shares));
}

ShareRoutes::Answer ShareRoutes::remove_share(const Request& request, const Caller& caller) {
  TRY(node_.service.remove(name_in(request), caller));
  fresh_.changed();
  return json_reply("{}");
}

ShareRoutes::Answer ShareRoutes::command(const Request& request, const Caller& caller, Operation operation) {
  TRY((node_.service.*operation)(name_in(request), caller));
  return share_now(name_in(request), caller);
}

ShareRoutes::Answer ShareRoutes::check_container(const Request& request, const Caller& caller) {
  ContainerUser user = TRY(container_user(request, caller));
  user.visitor.groups = user.groups;
  TRY(node_.access.check_container(name_in(request), user.visitor, caller));
  return json_reply("{}");
}

void ShareRoutes::enter_share(const Request& request, const Caller& caller, const http::Reply& reply) {
  const auto stay = flag_in(request, "stay");
  auto entry = stay ? node_.access.entry(name_in(request), caller, *stay) : std::unexpected(stay.error());
  const auto answer = [reply](const Result<node::Entry>& ready) {
    reply(ready ? json_reply(to_json(*ready)) : error_response(ready.error()));
  };
  if (entry && *stay && prepare_) return prepare_(std::move(*entry), caller, answer);
  answer(entry);
}

ShareRoutes::Answer ShareRoutes::list_quotas(const Request&, const Caller& caller) {
  std::string list;
  for (const auto& quota : node_.quotas.list()) {
    const bool own = quota.subject == tenancy::Quota::Subject::user ? quota.id == caller.uid
                     : quota.subject == tenancy::Quota::Subject::group
                         ? std::ranges::find(caller.gids, quota.id) != caller.gids.end()
                         : true;
    if (caller.administrator || own) list += (list.empty() ? "" : ",") + to_json(quota);
  }
  return json_reply("[" + list + "]");
}

ShareRoutes::Answer ShareRoutes::put_quota(const Request& request, const Caller& caller,
                                           node::QuotaService::Naming naming) {
  const tenancy::QuotaChange change = TRY(quota_change_from(request.body));
  return json_reply(to_json(TRY(node_.quotas.set(change, naming, caller))));
}

ShareRoutes::Answer ShareRoutes::remove_quota(const Request& request, const Caller& caller) {
  const bool everyone = TRY(flag_in(request, "everyone"));
  const auto named = TRY(quota_named(request.query_value("user"), request.query_value("group"), everyone));
  TRY(node_.quotas.remove(named.subject, named.id, caller));
  return json_reply("{}");
}

void ShareRoutes::close() {
  closed_ = true;
  for (const auto& [ticket, waiter] : std::exchange(waiters_, {})) waiter->stream->finish();
}

}  // namespace headgate::api
