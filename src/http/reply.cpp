#include "http/reply.hpp"

#include <utility>

namespace headgate::http {

Reply::Reply(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {
  last_copy_ = std::shared_ptr<void>(nullptr, [held = slot_](void*) {
    held->give(error_response(500, "failed", "the handler of this request gave no answer", "see the server's log"));
  });
}

void Reply::Slot::give(Response response) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(given_, true) || detached_) {
    if (response.stream) response.stream->close();
    return;
  }
  response_ = std::move(response);
  // Called under the lock, because after detach() the connection behind `wake_` may be gone.
  if (wake_) wake_();
}

std::optional<Response> Reply::Slot::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(response_, std::nullopt);
}

void Reply::Slot::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      if (!detached_) gone_callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

bool Reply::Slot::waits() {
  const std::lock_guard lock(mutex_);
  return !detached_;
}

void Reply::Slot::detach() {
  std::function<void()> dropped;  // destroyed after the unlock, because it may hold the last copy of a Reply
  const std::lock_guard lock(mutex_);
  detached_ = true;
  wake_ = nullptr;
  dropped = std::exchange(gone_callback_, nullptr);
  if (response_ && response_->stream) response_->stream->close();
}

void Reply::Slot::client_gone() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    callback = std::exchange(gone_callback_, nullptr);
  }
  detach();
  if (callback) callback();
}

}  // namespace headgate::http
