#include "http/event_stream.hpp"

#include <utility>

#include "http/event_text.hpp"

namespace headgate::http {

bool EventStream::push(const Event& event) {
  const std::string text = event_text(event);
  const std::lock_guard lock(mutex_);
  if (finished_ || overflowed_ || closed_) return false;
  if (queued_.size() + text.size() > most_bytes_) {
    overflowed_ = true;
  } else {
    queued_ += text;
  }
  // Called under the lock, because after close() the connection behind `wake_` may be gone.
  if (wake_) wake_();
  return !overflowed_;
}

void EventStream::feed_from(std::function<std::vector<Event>()> source) {
  const std::lock_guard lock(mutex_);
  source_ = std::move(source);
}

void EventStream::wake() {
  const std::lock_guard lock(mutex_);
  if (wake_) wake_();
}

void EventStream::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
  if (wake_) wake_();
}

bool EventStream::open() const {
  const std::lock_guard lock(mutex_);
  return !finished_ && !overflowed_ && !closed_;
}

void EventStream::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      closed_callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

EventStream::Batch EventStream::take() {
  std::function<std::vector<Event>()> source;
  {
    const std::lock_guard lock(mutex_);
    if (!source_) return {std::exchange(queued_, {}), finished_, overflowed_};
    source = source_;
  }
  // Called without the lock: the source takes other locks, and their holders may call wake().
  std::string text;
  for (const Event& event : source()) text += event_text(event);
  const std::lock_guard lock(mutex_);
  const bool finished = finished_ && text.empty();
  return {std::move(text), finished, false};
}

void EventStream::attach(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void EventStream::close() {
  std::function<void()> callback;
  std::function<std::vector<Event>()> source;  // destroyed after the unlock, along with what it owns
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    source = std::exchange(source_, nullptr);
    wake_ = nullptr;
    callback = std::exchange(closed_callback_, nullptr);
  }
  if (callback) callback();
}

}  // namespace headgate::http
