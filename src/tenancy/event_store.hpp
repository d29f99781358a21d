// What happened on the node, kept over restarts: one SQLite file of its own, so that neither its size nor its disk's
// troubles are those of the shares (store.hpp).
//
// Nobody who adds an event waits for the disk: a thread of the store's own writes, as many at once as have come. What
// was added in the last moments before a kill may be lost; a batch is there whole or not at all.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "base/round_robin_queue.hpp"
#include "snapshot/event_group.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::tenancy {

class Database;

struct EventBounds {
  std::size_t rows = 100'000;                          // some 300 bytes each
  std::chrono::seconds age = std::chrono::hours(168);  // by the node's clock
};

// Which of the events; what is left empty does not choose.
struct EventQuery {
  std::uint64_t after = 0;          // with a greater number than this
  std::uint64_t since_unix_ns = 0;  // not earlier
  std::string share = {};
  std::string kind = {};  // the beginning of it
  bool newest = false;    // where there are more than wanted: the newest of them, not the oldest

  [[nodiscard]] bool matches(const snapshot::Event& event) const;
};

// Numbers above `after` and up to `until` that no event has: a daemon's numbers begin where no former one's can have
// come to.
struct EventGap {
  std::uint64_t after = 0, until = 0;

  friend bool operator==(const EventGap&, const EventGap&) = default;
};

class EventStore {
 public:
  // As observe::EventLog: one share has at most this part of the rows, the findings of the audit apart. Without room,
  // the owner that has most gives up its oldest, but the node's own events, and all findings, each have this part
  // whatever owners do.
  static constexpr std::size_t kPart = 8;
  // So many wait for a disk that takes none; then the oldest of them are lost, and counted.
  static constexpr std::size_t kMaxWaiting = 8192;

  // What was there when it was opened.
  struct Former {
    std::vector<snapshot::Event> events;  // the newest, oldest first
    std::vector<EventGap> gaps;           // the last of them ends at `last`
    std::uint64_t last = 0;               // the next event's number is greater
  };

  // The node's clock, which people set forward and back. Any thread.
  using Clock = std::function<std::chrono::system_clock::time_point()>;

  // Opens or makes the file. By the clock what is too old goes, and the first number is found (milliseconds: less than
  // a thousand events a second are told); nothing is waited for by it. Errors as of Store::open.
  [[nodiscard]] static Result<std::unique_ptr<EventStore>> open(const std::string& path, EventBounds bounds,
                                                                Clock clock);
  // Writes what waits. A file system that hangs keeps only this waiting.
  ~EventStore();
  EventStore(const EventStore&) = delete;

  // The newest `most`, for the log of this run. Once, before the first add().
  [[nodiscard]] Former take_former() { return std::move(former_); }

  // Any thread; never waits for the disk. Its number must be greater than Former::last.
  void add(const snapshot::Event& event);

  // Calls `answer` on the store's thread with those that match and that `wanted` takes, oldest first, at most `most`;
  // all that was added before is among them, but for what could not be written. Not called where the store ends first.
  // Any thread.
  using Answer = std::function<void(Result<std::vector<snapshot::Event>>)>;
  // Whoever asks. Users have their answers in turn, however much one of them asks; nobody looks for what nobody waits
  // for any more.
  struct Asker {
    std::uint32_t uid = 0;
    std::function<bool()> waits;  // any thread
  };
  void read(EventQuery query, std::size_t most, std::function<bool(const snapshot::Event&)> wanted, Asker asker,
            Answer answer);

  // Whether the last write worked. Any thread.
  [[nodiscard]] bool is_writing() const;
  // How many are on the disk, as of the last write. Any thread.
  [[nodiscard]] std::uint64_t rows() const { return rows_on_disk_.load(std::memory_order_relaxed); }

  // Called on the store's thread when writing begins to fail (why; it is tried again each second), and when it works
  // again (none, and how many events were lost meanwhile). It may call add().
  using Trouble = std::function<void(const std::optional<Error>& error, std::uint64_t lost)>;
  void tell_trouble(Trouble trouble);

 private:
  struct Question {
    EventQuery query;
    std::size_t most;
    std::function<bool(const snapshot::Event&)> wanted;
    std::function<bool()> waits;
    Answer answer;
  };

  EventStore(std::unique_ptr<Database> database, EventBounds bounds, Clock clock);
  void work();
  void write(std::deque<snapshot::Event> batch);
  void put_back(std::deque<snapshot::Event> batch, const Error& error);
  // The store's thread only.
  [[nodiscard]] Result<void> write_rows(const std::deque<snapshot::Event>& batch,
                                        std::chrono::system_clock::time_point now);
  [[nodiscard]] Result<void> count_rows();
  [[nodiscard]] Result<void> keep_bounds(std::chrono::system_clock::time_point now);
  [[nodiscard]] Result<void> bound_shares();
  [[nodiscard]] Result<void> bound_owners();
  [[nodiscard]] Result<void> forget_old(std::chrono::system_clock::time_point now);
  [[nodiscard]] Result<std::vector<snapshot::Event>> rows_of(const Question& question);

  const std::unique_ptr<Database> database_;
  const EventBounds bounds_;
  const Clock clock_;
  Former former_;
  // The store's thread only.
  std::map<std::string, std::size_t> rows_;  // by share, without findings
  std::map<snapshot::EventGroup, std::size_t> groups_;
  std::size_t row_count_ = 0;
  std::atomic<std::uint64_t> rows_on_disk_ = 0;
  bool counted_ = false;
  std::chrono::system_clock::time_point aged_at_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<snapshot::Event> waiting_;
  RoundRobinQueue<Question> questions_;
  Trouble trouble_;
  bool failing_ = false, stopping_ = false;
  std::uint64_t lost_ = 0;
  std::thread thread_;
};

}  // namespace headgate::tenancy
