// Writes what /metrics shows, and the events, to a file at each interval: for collectors that follow files.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "api/figures.hpp"
#include "api/line_file.hpp"
#include "api/lines.hpp"
#include "config/config.hpp"
#include "node/node.hpp"
#include "observe/event_cursor.hpp"
#include "observe/event_log.hpp"
#include "observe/observer.hpp"

namespace headgate::daemon {

class MetricsFile {
 public:
  struct Wish {
    std::string path;
    api::LineForm form = api::LineForm::influx;
    std::chrono::seconds interval{10};
  };
  // Returns empty if no file is wanted. Errors: usage, naming the key and where it stands.
  [[nodiscard]] static Result<std::optional<Wish>> wish_of(const config::Config& config);

  // Writes on a separate thread: a file system that hangs blocks only that. All four must outlive it.
  MetricsFile(Wish wish, const node::Node& node, const observe::Observer& observer, const observe::EventLog& events,
              const api::Tally& tally);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;

 private:
  // What has been written so far.
  struct Reached {
    observe::EventCursor events;
    std::uint64_t snapshot_ns = 0;
  };
  void write_until_stopped();
  // Returns what came after `reached`, and advances that.
  std::string lines(Reached& reached) const;

  const Wish wish_;
  const node::Node& node_;
  const observe::Observer& observer_;
  const observe::EventLog& events_;
  const api::Tally& tally_;
  api::LineFile file_;
  Reached reached_;
  bool failing_ = false;  // reported once
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace headgate::daemon
