// The one event loop of a host program: sockets, timers and whatever others post to it run on the thread in run().
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace headgate::http {

class Loop {
 public:
  Loop();
  ~Loop();  // after everything that runs on it; what was posted and has not run is dropped
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();                              // until stop()
  void run_for(std::chrono::nanoseconds);  // or until stop(); for tests
  void stop();                             // any thread
  void post(std::function<void()> work);   // any thread; runs later, on the loop's thread, in order

  struct Impl;  // http/io.hpp shows it to rooms that run coroutines
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// One shot after a while; start() again replaces what was started. For the loop's thread only. Destroying it cancels.
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
  std::shared_ptr<Impl> impl_;  // shared with the pending wait, which may complete after we are gone
};

// Calls `action` on the loop's thread each time `fd` is readable, until destroyed; an action that leaves something to
// read is called again. For pidfds, eventfds, signalfds, sockets of other kinds. `fd` is the caller's, and must outlive
// the watch. For the loop's thread only; the action may destroy the watch.
class Watch {
 public:
  Watch(Loop& loop, int fd, std::function<void()> action);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with the pending wait
};

}  // namespace headgate::http
