// What all parts of a running daemon share: the configuration in force, where its files lie, its loop and its events.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "api/access.hpp"
#include "api/figures.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "daemon/options.hpp"
#include "daemon/places.hpp"
#include "http/loop.hpp"
#include "install/source.hpp"
#include "observe/event_log.hpp"

namespace headgate::daemon {

struct Context {
  // Reads the configuration, locks the directories, finds the driver or makes the simulated node. Errors: each names
  // file, value and what is accepted.
  [[nodiscard]] static Result<std::unique_ptr<Context>> prepare(const Options& options);

  // Runs `work` on the loop's thread, and blocks until it is done. If `ending` becomes true, withdraws the work, or
  // waits for its end if it has begun. Any thread.
  void on_loop(const std::function<void()>& work);

  const Options options;
  config::Config config;
  const std::optional<gid_t> group;  // of the control socket
  const Places places;
  const PlacesHeld held;
  const install::Source source;
  const std::thread::id main_thread = std::this_thread::get_id();
  std::atomic<bool> ending = false;
  observe::EventLog events{};
  api::CurrentAccess access{};
  api::Tally tally{};
  http::Loop loop{};
};

}  // namespace headgate::daemon
