// Keeps the node's events over restarts, in a SQLite file apart from the shares' (store.hpp): neither its size nor its
// disk errors affect them.
//
// add() never waits for the disk: the store's thread writes, as many events at once as have come. A kill may lose the
// events of the last moments; a batch is there whole or not at all.
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

// Selects events. An empty field selects all.
struct EventQuery {
  std::uint64_t after = 0;          // with a greater number
  std::uint64_t since_unix_ns = 0;  // not earlier
  std::string share = {};
  std::string kind = {};  // a prefix of the kind
  bool newest = false;    // if more match than are wanted: the newest of them, not the oldest

  [[nodiscard]] bool matches(const snapshot::Event& event) const;
};

// Numbers above `after` and up to `until` that no event has: a daemon's numbers begin above any that a former daemon
// can have reached.
struct EventGap {
  std::uint64_t after = 0, until = 0;

  friend bool operator==(const EventGap&, const EventGap&) = default;
};

class EventStore {
 public:
  // As in observe::EventLog: one share has at most this part of the rows, not counting findings of the audit. If there
  // is no room, the owner that has most gives up its oldest. The node's own events, and all findings, each have this
  // part whatever owners do.
  static constexpr std::size_t kPart = 8;
  // The most events that wait while they cannot be written. Beyond it the oldest are dropped and counted.
  static constexpr std::size_t kMaxWaiting = 8192;

  // What the file held when it was opened.
  struct Former {
    std::vector<snapshot::Event> events;  // the newest, oldest first
    std::vector<EventGap> gaps;           // the last of them ends at `last`
    std::uint64_t last = 0;               // the next event's number is greater
  };

  // The node's clock, which users may set forward and back. Called on any thread.
  using Clock = std::function<std::chrono::system_clock::time_point()>;

  // Opens or creates the file. The clock decides which events are too old, and the first number (in milliseconds: fewer
  // than a thousand events a second are reported). No wait depends on it. Errors: as Store::open.
  [[nodiscard]] static Result<std::unique_ptr<EventStore>> open(const std::string& path, EventBounds bounds,
                                                                Clock clock);
  // Writes what waits. A file system that hangs blocks only this destructor.
  ~EventStore();
  EventStore(const EventStore&) = delete;

  // Returns the newest events, for the log of this run. Call once, before the first add().
  [[nodiscard]] Former take_former() { return std::move(former_); }

  // Queues the event. Any thread; never waits for the disk. Its number must be greater than Former::last.
  void add(const snapshot::Event& event);

  // Calls `answer` on the store's thread with the events that match and that `wanted` accepts, oldest first, at most
  // `most`. All that were added before are included, except those that could not be written. Not called if the store is
  // destroyed first. Any thread.
  using Answer = std::function<void(Result<std::vector<snapshot::Event>>)>;
  // The asking user. Users are answered round robin, however much one of them asks. A question is dropped once its
  // asker no longer waits.
  struct Asker {
    std::uint32_t uid = 0;
    std::function<bool()> waits;  // any thread
  };
  void read(EventQuery query, std::size_t most, std::function<bool(const snapshot::Event&)> wanted, Asker asker,
            Answer answer);

  // Returns whether the last write worked. Any thread.
  [[nodiscard]] bool is_writing() const;
  // Returns how many are on the disk, as of the last write. Any thread.
  [[nodiscard]] std::uint64_t rows() const { return rows_on_disk_.load(std::memory_order_relaxed); }

  // Called on the store's thread when writes begin to fail, with the error (they are retried each second). Called again
  // when they work, without one, and with how many events were lost. It may call add().
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
