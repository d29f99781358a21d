// What the daemon does each second, on its loop.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "api/service.hpp"
#include "daemon/context.hpp"
#include "daemon/event_keeper.hpp"
#include "http/loop.hpp"

namespace headgate::daemon {

class Housekeeping {
 public:
  explicit Housekeeping(Context& context) : context_(context), timer_(context.loop) {}

  // Runs the jobs now and each second from now on, in their order; then tells systemd that the loop does not hang.
  void start(std::vector<std::function<void()>> jobs);
  // A job: takes over what metrics say of the daemon. Every few seconds only, as it tries the store with a write.
  void take_standing(api::Service& service, const EventKeeper& history);

 private:
  void tick();

  Context& context_;
  http::Timer timer_;
  std::vector<std::function<void()>> jobs_;
  std::uint64_t ticks_ = 0;
};

}  // namespace headgate::daemon
