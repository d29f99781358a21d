// Looks at the node on a thread of its own, so that a driver or a daemon that takes its time does not hold up the keys.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.hpp"
#include "cli/view/snapshot_source.hpp"

namespace headgate::cli {

struct Look {
  Result<snapshot::Snapshot> snapshot;
  std::vector<snapshot::Event> events;  // since the look before
  std::string remark;                   // what the snapshot lacks
};

// Thread-safe. The second look follows the first at once, for there are no rates before it.
class Watcher {
 public:
  Watcher(std::unique_ptr<SnapshotSource> source, std::chrono::milliseconds interval);
  // Waits for a look that is under way.
  ~Watcher();
  Watcher(const Watcher&) = delete;

  // Readable while there is a look to take.
  [[nodiscard]] int fd() const { return news_.get(); }
  // The newest look; its events hold those of looks that nobody took. Empty where it was taken already, though fd()
  // told of it.
  [[nodiscard]] std::optional<Look> take();
  void set_interval(std::chrono::milliseconds interval);

 private:
  void run();
  Look look();
  void hand_over(Look look);

  const std::unique_ptr<SnapshotSource> source_;  // of the thread alone
  snapshot::Event last_event_;                    // likewise, and the next
  std::uint64_t daemon_started_ = 0;
  UniqueFd news_;

  std::mutex mutex_;  // guards all below but the thread
  std::condition_variable wake_;
  std::chrono::milliseconds interval_;
  std::optional<Look> newest_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace headgate::cli
