// The answer that a handler owes, given when it is ready: at once, later, or from another thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "http/message.hpp"

namespace headgate::http {

// Copies share one answer. The first call gives it, later ones do nothing; when the last copy goes without a call, the
// client reads 500. Any thread.
class Reply {
 public:
  // Where the answer waits for the connection.
  class Slot {
   public:
    explicit Slot(std::function<void()> wake) : wake_(std::move(wake)) {}
    void give(Response response);
    [[nodiscard]] std::optional<Response> take();
    void on_gone(std::function<void()> callback);
    void detach();       // the connection's side: no more wake-ups; answers are dropped
    void client_gone();  // detach(), and tell
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
  // Called once, on the loop's thread, if the client leaves before it has its answer; at once where it has left.
  void on_gone(std::function<void()> callback) const { slot_->on_gone(std::move(callback)); }
  // False: nobody will read what is given, be it that the client has left or that its time is over.
  [[nodiscard]] bool waits() const { return slot_->waits(); }

 private:
  std::shared_ptr<Slot> slot_;
  std::shared_ptr<void> last_copy_;  // its end is the end of the last copy
};

}  // namespace headgate::http
