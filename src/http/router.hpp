// Maps method and path to a handler. A pattern's {name} segments match any one segment: "/v1/shares/{name}".
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/message.hpp"

namespace headgate::http {

// A handler's response, given at once, later, or from another thread. Copies share one response: the first call sends
// it, later calls do nothing. If the last copy goes without a call, the client gets 500. Any thread.
class Reply {
 public:
  // Holds the response until the connection takes it.
  class Slot {
   public:
    explicit Slot(std::function<void()> wake) : wake_(std::move(wake)) {}
    void give(Response response);
    [[nodiscard]] std::optional<Response> take();
    void on_gone(std::function<void()> callback);
    void detach();       // called by the connection: ends wake-ups and drops responses
    void client_gone();  // detach(), and run the on_gone callback
    [[nodiscard]] bool waits();

   private:
    std::mutex mutex_;
    std::function<void()> wake_;
    std::function<void()> gone_callback_;
    std::optional<Response> response_;
    bool given_ = false;
    bool detached_ = false;
    bool gone_ = false;
  };

  explicit Reply(std::shared_ptr<Slot> slot);
  void operator()(Response response) const { slot_->give(std::move(response)); }
  // Sets a callback, run once on the loop's thread if the client leaves before it has its reply; at once if it has.
  void on_gone(std::function<void()> callback) const { slot_->on_gone(std::move(callback)); }
  // Returns false if the response is not needed, because the client left or its time is over.
  [[nodiscard]] bool waits() const { return slot_->waits(); }

 private:
  std::shared_ptr<Slot> slot_;
  std::shared_ptr<void> last_copy_;  // destroyed with the last copy
};

using Handler = std::function<Response(const Request&)>;
using LaterHandler = std::function<void(const Request&, Reply)>;

enum class Runs {
  on_loop,  // on the loop's thread: must not block
  on_pool,  // on a small thread pool: may block on a file, a database, NVML
};

class Router {
 public:
  struct Route {
    std::string method;
    std::vector<std::string> segments;
    LaterHandler handler;
    bool answers_later;
    Runs runs;
    std::optional<std::vector<std::string>> query;  // accepted query parameters; none: any
  };

  // If several patterns match, the first added wins: add "/v1/shares/new" before "/v1/shares/{name}".
  Router& add(std::string_view method, std::string_view pattern, Handler handler, Runs runs = Runs::on_loop);
  // Adds a handler that answers later (long polls); it runs on the loop's thread.
  Router& add_later(std::string_view method, std::string_view pattern, LaterHandler handler);

  // Restricts the query of an added route: other parameter names are refused instead of ignored. Returns false if there
  // is no such route.
  bool accept_only(std::string_view method, std::string_view pattern, std::optional<std::vector<std::string>> query);

  // Handles requests that match no route, instead of 404 and 405; on the loop's thread.
  Router& otherwise(Handler handler);

  // Returns the route, with request.parameters set, or the error reply: 404, 405 with Allow, or 400 for its query. HEAD
  // uses the GET route.
  [[nodiscard]] std::variant<const Route*, Response> find(Request& request) const;

 private:
  std::vector<Route> routes_;
  Handler otherwise_;
};

}  // namespace headgate::http
