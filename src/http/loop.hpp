// The event loop of a program: sockets, timers and posted work run on the thread that calls run().
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace headgate::http {

class Loop {
 public:
  Loop();
  ~Loop();  // destroy it after everything that runs on it; drops posted work that has not run
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();                              // blocks until stop()
  void run_for(std::chrono::nanoseconds);  // the same with a time limit; for tests
  void stop();                             // any thread
  void post(std::function<void()> work);   // any thread; runs later on the loop's thread, in order

  struct Impl;  // defined in http/io.hpp for rooms that run coroutines
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// A one-shot timer; start() replaces a pending one, destruction cancels it. For the loop's thread only.
class Timer {
 public:
  explicit Timer(Loop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void start(std::chrono::nanoseconds delay, std::function<void()> action);
  void cancel();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with a pending wait, which may complete after this object is gone
};

// Calls `action` on the loop's thread whenever `fd` is readable (level-triggered), until destroyed. For pidfds,
// eventfds, signalfds and other sockets. The caller owns `fd`, which must outlive the watch. For the loop's thread
// only; the action may destroy the watch.
class Watch {
 public:
  Watch(Loop& loop, int fd, std::function<void()> action);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with a pending wait
};

}  // namespace headgate::http
