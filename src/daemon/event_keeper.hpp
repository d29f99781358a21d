// Keeps events over restarts: opens the store of events, and tries again while that fails. For the loop's thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "daemon/context.hpp"
#include "observe/event_log.hpp"
#include "tenancy/event_store.hpp"

namespace headgate::daemon {

class EventKeeper {
 public:
  // Opens the store that the configuration describes. Call it before the first event. Without a store the daemon still
  // runs, and reports that. `context` outlives it. Errors: usage, for events.keep.
  [[nodiscard]] static Result<std::unique_ptr<EventKeeper>> start(Context& context);

  // `events` outlives it.
  EventKeeper(observe::EventLog& events, std::string path, tenancy::EventBounds bounds)
      : events_(events), path_(std::move(path)), bounds_(bounds) {}

  // Call it before the first event. Without a store the daemon still runs, and reports that.
  void open();
  // Call it about once a second. Returns the store if only this call could open it: all events of this run are in it.
  [[nodiscard]] tenancy::EventStore* retry(std::chrono::steady_clock::time_point now);
  // Returns nullptr if events are in memory only.
  [[nodiscard]] tenancy::EventStore* store() const { return store_.get(); }
  [[nodiscard]] bool is_saving() const { return store_ != nullptr && store_->is_writing(); }

 private:
  void keep(std::unique_ptr<tenancy::EventStore> store);
  void tell_unsaved(const Error& error);

  observe::EventLog& events_;
  const std::string path_;
  const tenancy::EventBounds bounds_;
  std::unique_ptr<tenancy::EventStore> store_;
  std::string trouble_;  // last reported
  std::chrono::steady_clock::time_point tried_at_;
};

}  // namespace headgate::daemon
