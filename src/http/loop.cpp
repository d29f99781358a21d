#include "http/loop.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "http/io.hpp"

namespace headgate::http {

Loop::Loop() : impl_(std::make_unique<Impl>()) {}
Loop::~Loop() = default;

std::string what_ended(const std::exception_ptr& thrown) {
  if (!thrown) return {};
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception without words";
  }
}

void Loop::run() { impl_->context.run(); }

void Loop::run_for(std::chrono::nanoseconds duration) { impl_->context.run_for(duration); }

void Loop::stop() { impl_->context.stop(); }

void Loop::post(std::function<void()> work) { boost::asio::post(impl_->context, std::move(work)); }

struct Timer::Impl {
  explicit Impl(Loop& loop) : timer(context_of(loop)) {}
  boost::asio::steady_timer timer;
  unsigned round = 0;  // identifies a wait that completed before it was cancelled
};

Timer::Timer(Loop& loop) : impl_(std::make_shared<Impl>(loop)) {}

Timer::~Timer() { cancel(); }

void Timer::start(std::chrono::nanoseconds delay, std::function<void()> action) {
  const unsigned round = ++impl_->round;
  impl_->timer.expires_after(delay);
  impl_->timer.async_wait([impl = impl_, round, action = std::move(action)](const boost::system::error_code& error) {
    if (!error && impl->round == round) action();
  });
}

void Timer::cancel() {
  ++impl_->round;
  impl_->timer.cancel();
}

struct Watch::Impl : std::enable_shared_from_this<Watch::Impl> {
  Impl(Loop& loop, int fd, std::function<void()> then) : descriptor(context_of(loop), fd), action(std::move(then)) {}
  // The descriptor belongs to the caller, so it is never closed here.
  ~Impl() { let_go(); }

  void let_go() {
    if (descriptor.is_open()) (void)descriptor.release();
  }
  void wait() {
    descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this()](const boost::system::error_code& error) {
                            if (error || !self->descriptor.is_open()) return;
                            self->action();
                            if (self->descriptor.is_open()) self->wait();
                          });
  }

  boost::asio::posix::stream_descriptor descriptor;
  std::function<void()> action;
};

Watch::Watch(Loop& loop, int fd, std::function<void()> action)
    : impl_(std::make_shared<Impl>(loop, fd, std::move(action))) {
  impl_->wait();
}

Watch::~Watch() { impl_->let_go(); }

}  // namespace headgate::http
