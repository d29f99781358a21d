// Tasks for outside agents, and who holds them: the rules of the channel without I/O, threads or a clock of its own.
// Time is handed in, from any epoch, and never runs backwards. Not thread-safe.
//
//   queued -> leased -> working -> done | failed
//      ^         |         |
//      +---------+---------+   the lease ran out (or was given back) and an attempt is left
//
// A task that is not settled in time is expired, whoever holds it; one whose last attempt came to nothing is abandoned;
// cancelled is what its submitter does.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace headgate::channel {

using Time = std::chrono::nanoseconds;
using TaskId = std::uint64_t;  // rising; never used again

enum class State : std::uint8_t { queued, leased, working, done, failed, expired, cancelled, abandoned };
[[nodiscard]] std::string_view word(State state);
[[nodiscard]] constexpr bool is_settled(State state) { return state >= State::done; }
// 1 to `most` of letters, digits, ".", "_", ":" and "-": needs no escape in a path or in JSON.
[[nodiscard]] bool is_name(std::string_view text, std::size_t most);

struct TaskLimits {
  std::size_t clients = 1024;         // with a task of any state
  std::size_t open_per_client = 256;  // not settled
  std::size_t remembered_per_client = 100;
  std::size_t payload_bytes = 64 << 10;  // and of a result
  std::size_t name_bytes = 128;
  unsigned attempts = 3;
  Time lease = std::chrono::seconds(10);     // to acknowledge
  Time work = std::chrono::seconds(60);      // from each acknowledgement to the next, or to the result
  Time reconnect = std::chrono::seconds(2);  // to acknowledge again after the stream that carried the task has ended
  Time longest = std::chrono::hours(24);     // time to live
  Time remember = std::chrono::minutes(5);   // settled tasks, so that a late answer is told why it is late
};

struct Submission {
  std::string client;  // 1..128 of letters, digits, '.', '_', ':', '-'; so is kind
  std::string kind;
  std::string payload;  // JSON
  Time time_to_live{std::chrono::seconds(30)};
  std::string lane =
      {};  // for whom: the lanes of a client have their turns, so that many tasks of one keep no other's waiting
};

struct Task {
  TaskId id = 0;
  std::string client;
  std::string kind;
  std::string payload;
  State state = State::queued;
  unsigned attempt = 0;  // leases so far; 0: nobody has had it
  Time submitted{};
  Time expires{};
  Time lease_ends{};     // leased and working
  Time settled_at{};     // once settled
  std::string result{};  // done: JSON; failed: the agent's words
  std::string lane{};
  friend bool operator==(const Task&, const Task&) = default;
};

// Why an agent's word is not taken.
enum class Refusal {
  unknown,  // no such task for this client, or too long ago
  stale,    // the lease of this attempt is over: somebody else may have the task
  settled,  // the task is settled otherwise
};

// Returns the most that one lease may take of the time that a task has left: a third, so that the agent after one that
// died has time to decide. In the last seconds a third is too short to answer in, so there it is 1 s, or half of the
// rest.
[[nodiscard]] Time longest_lease(Time left);

class Tasks {
 public:
  explicit Tasks(TaskLimits limits = {}, TaskId last_id = 0) : limits_(limits), last_id_(last_id) {}

  // usage: a name, payload or time to live that we do not take; no_capacity: too much waits already.
  [[nodiscard]] Result<TaskId> submit(const Submission& submission, Time now);
  // The oldest task that waits for the client in the lane whose turn it is, now leased.
  [[nodiscard]] std::optional<Task> lease(const std::string& client, Time now);
  // "I have it and work on it": each call grants `work` from now, or less near the task's end (see longest_lease).
  // Returns what was granted.
  [[nodiscard]] std::expected<Time, Refusal> acknowledge(const std::string& client, TaskId id, unsigned attempt,
                                                         Time now);
  // The answer. The same attempt may say the same twice (its first word's echo was lost); another answer than the
  // first comes too late (settled).
  [[nodiscard]] std::expected<void, Refusal> settle(const std::string& client, TaskId id, unsigned attempt, bool ok,
                                                    std::string result, Time now);
  // The lease is given back before its end.
  std::expected<void, Refusal> release(const std::string& client, TaskId id, unsigned attempt, Time now);
  // The stream that carried this attempt has ended. A task that was not acknowledged goes to the next agent now. One
  // that was stays with its agent for `reconnect` at most, in which an agent that is alive acknowledges again.
  std::expected<void, Refusal> disconnect(const std::string& client, TaskId id, unsigned attempt, Time now);
  bool cancel(TaskId id, Time now);  // false: there is no such open task

  // What time does: leases run out, tasks expire. All functions above do it first.
  void advance(Time now);
  [[nodiscard]] std::optional<Time> next_deadline() const;

  // Tasks that were settled since the last call, in that order.
  [[nodiscard]] std::vector<Task> take_settled() { return std::exchange(settled_, {}); }
  [[nodiscard]] const Task* find(TaskId id) const;
  [[nodiscard]] bool has_queued(const std::string& client) const;
  [[nodiscard]] std::vector<const Task*> of(const std::string& client) const;  // by id
  [[nodiscard]] std::vector<std::string> clients() const;

  [[nodiscard]] const TaskLimits& limits() const { return limits_; }

 private:
  struct Client {
    // By lane, none of them empty; a task that comes back is older than those behind it.
    std::map<std::string, std::set<TaskId>> queued;
    std::string last_lane;
    std::set<TaskId> all;
    std::set<std::pair<Time, TaskId>> remembered;
  };

  [[nodiscard]] std::expected<Task*, Refusal> held(const std::string& client, TaskId id, unsigned attempt);
  [[nodiscard]] Result<void> check(const Submission& submission) const;
  void enqueue(const Task& task);
  void dequeue(const Task& task);
  void set_deadline(const Task& task, Time at);
  void hold(Task& task, State state, Time duration, Time now);
  void lose_lease(Task& task, Time now);
  void end(Task& task, State state, Time now);
  void forget(TaskId id);

  const TaskLimits limits_;
  TaskId last_id_;
  std::map<TaskId, Task> tasks_;
  std::map<std::string, Client, std::less<>> clients_;
  std::set<std::pair<Time, TaskId>> deadlines_;  // one for each task
  std::map<TaskId, Time> deadline_of_;
  std::vector<Task> settled_;
};

}  // namespace headgate::channel
