// Decides for requests whether the observer's latest snapshot is new enough. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/now.hpp"
#include "observe/observer.hpp"

namespace headgate::api {

class FreshSnapshots {
 public:
  explicit FreshSnapshots(observe::Observer& observer) : observer_(observer) {}

  // Returns the latest snapshot, or takes a new one if it is older than 100 ms, the last change or the last process
  // exit. Blocks: for the pool.
  [[nodiscard]] observe::NodeSnapshot get();
  // Make earlier snapshots stale: an operation has changed something; a process of a share has ended.
  void changed() { changed_ns_ = steady_now_ns(); }
  void process_ended() { ended_ns_ = steady_now_ns(); }

 private:
  observe::Observer& observer_;
  std::atomic<std::uint64_t> changed_ns_ = 0, ended_ns_ = 0;
};

}  // namespace headgate::api
