// A handler's response, given at once, later, or from another thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "http/message.hpp"

namespace headgate::http {

// Copies share one response: the first call sends it, later calls do nothing. If the last copy goes without a call, the
// client gets 500. Any thread.
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

}  // namespace headgate::http
