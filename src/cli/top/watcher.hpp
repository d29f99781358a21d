// Takes snapshots on a separate thread, so that a slow driver or daemon does not delay the keys.
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
  std::vector<snapshot::Event> events;  // since the previous snapshot
  std::string remark;                   // what the snapshot lacks
};

// Thread-safe. The second snapshot follows the first at once, because the first has no rates.
class Watcher {
 public:
  Watcher(std::unique_ptr<SnapshotSource> source, std::chrono::milliseconds interval);
  // Waits for a snapshot in progress.
  ~Watcher();
  Watcher(const Watcher&) = delete;

  // Returns a descriptor that is readable while there is a snapshot to take.
  [[nodiscard]] int fd() const { return news_.get(); }
  // Returns the newest snapshot, with the events of those that were not taken. Empty if it was taken already, even if
  // fd() was readable.
  [[nodiscard]] std::optional<Look> take();
  void set_interval(std::chrono::milliseconds interval);

 private:
  void run();
  Look look();
  void hand_over(Look look);

  const std::unique_ptr<SnapshotSource> source_;  // used by the thread only
  snapshot::Event last_event_;                    // used by the thread only, like the next
  std::uint64_t daemon_started_ = 0;
  UniqueFd news_;

  std::mutex mutex_;  // guards all below except the thread
  std::condition_variable wake_;
  std::chrono::milliseconds interval_;
  std::optional<Look> newest_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace headgate::cli
