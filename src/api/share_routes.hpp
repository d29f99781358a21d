// The handlers of /v1/shares, /v1/queue and /v1/quotas: each parses a request, calls the node's operation, and answers
// with what has become of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "api/fresh_snapshots.hpp"
#include "base/result.hpp"
#include "http/loop.hpp"
#include "http/message.hpp"
#include "http/router.hpp"
#include "node/node.hpp"
#include "observe/observer.hpp"

namespace headgate::api {

// For the loop's thread, except get_share(), which is for the pool.
class ShareRoutes : public std::enable_shared_from_this<ShareRoutes> {
 public:
  using Answer = Result<http::Response>;
  // Prepares an entry; `done` may be called once, on any thread.
  using Prepare =
      std::function<void(node::Entry entry, const node::Caller& caller, std::function<void(Result<node::Entry>)> done)>;

  // All must outlive it.
  ShareRoutes(http::Loop& loop, node::Node& node, observe::Observer& observer, FreshSnapshots& fresh)
      : loop_(loop), node_(node), observer_(observer), fresh_(fresh) {}

  void set_prepare(Prepare prepare) { prepare_ = std::move(prepare); }
  // Ends all streams, so that the server can stop.
  void close();

  Answer get_share(const http::Request& request, const node::Caller& caller);
  Answer create_share(const http::Request& request, const node::Caller& caller);
  // Answers with a stream, which ends when the share is made, its time is over, or its client is gone.
  Answer wait_for_room(const http::Request& request, const node::Caller& caller);
  Answer change_share(const http::Request& request, const node::Caller& caller);
  Answer change_shares(const http::Request& request, const node::Caller& caller);
  Answer remove_share(const http::Request& request, const node::Caller& caller);
  // Pauses, resumes, drains the share, or asks its programs for what they do not use.
  using Operation = Result<void> (node::ShareService::*)(const std::string& name, const node::Caller& caller);
  Answer command(const http::Request& request, const node::Caller& caller, Operation operation);
  Answer check_container(const http::Request& request, const node::Caller& caller);
  void enter_share(const http::Request& request, const node::Caller& caller, const http::Reply& reply);
  Answer list_quotas(const http::Request& request, const node::Caller& caller);
  Answer put_quota(const http::Request& request, const node::Caller& caller, node::QuotaService::Naming naming);
  Answer remove_quota(const http::Request& request, const node::Caller& caller);

 private:
  struct Waiter;

  Answer share_now(const std::string& name, const node::Caller& caller, int status = 200);
  [[nodiscard]] snapshot::Snapshot ledgers_now();
  void leave_queue(std::uint64_t ticket);

  http::Loop& loop_;
  node::Node& node_;
  observe::Observer& observer_;
  FreshSnapshots& fresh_;
  Prepare prepare_;
  std::map<std::uint64_t, std::shared_ptr<Waiter>> waiters_;  // by the queue's ticket numbers
  bool closed_ = false;
};

}  // namespace headgate::api
