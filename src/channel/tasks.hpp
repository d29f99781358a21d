// The rules of tasks for external agents and their leases, without I/O, threads or clock. Time is passed in, from any
// epoch, and must never run backwards. Not thread-safe.
//
//   queued -> leased -> working -> done | failed
//      ^         |         |
//      +---------+---------+   the lease ran out, or its stream ended, and an attempt is left
//
// A task not settled in time becomes expired, even while it is held. One whose last attempt failed becomes abandoned;
// cancelled means by its submitter.
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
using TaskId = std::uint64_t;  // ascending; never reused

enum class State : std::uint8_t { queued, leased, working, done, failed, expired, cancelled, abandoned };
[[nodiscard]] std::string_view word(State state);
[[nodiscard]] constexpr bool is_settled(State state) { return state >= State::done; }
// Returns true for 1 to `most` of letters, digits, ".", "_", ":" and "-", which need no escape in a path or in JSON.
[[nodiscard]] bool is_name(std::string_view text, std::size_t most);

struct TaskLimits {
  std::size_t clients = 1024;         // those with a task in any state
  std::size_t open_per_client = 256;  // unsettled tasks
  std::size_t remembered_per_client = 100;
  std::size_t payload_bytes = 64 << 10;  // also of a result
  std::size_t name_bytes = 128;
  unsigned attempts = 3;
  Time lease = std::chrono::seconds(10);     // until the first acknowledgement
  Time work = std::chrono::seconds(60);      // from each acknowledgement to the next, or to the result
  Time reconnect = std::chrono::seconds(2);  // for a new acknowledgement after the task's stream has ended
  Time longest = std::chrono::hours(24);     // maximum time to live
  Time remember = std::chrono::minutes(5);   // how long settled tasks are kept, to explain why a late answer is refused
};

struct Submission {
  std::string client;  // 1..128 of letters, digits, '.', '_', ':', '-'; the same for kind
  std::string kind;
  std::string payload;  // JSON
  Time time_to_live{std::chrono::seconds(30)};
  std::string lane = {};  // lanes of a client are served round robin, so that one cannot delay the others
};

struct Task {
  TaskId id = 0;
  std::string client;
  std::string kind;
  std::string payload;
  State state = State::queued;
  unsigned attempt = 0;  // leases so far; 0: never leased
  Time submitted{};
  Time expires{};
  Time lease_ends{};     // while leased or working
  Time settled_at{};     // once settled
  std::string result{};  // done: JSON; failed: the agent's text
  std::string lane{};
  friend bool operator==(const Task&, const Task&) = default;
};

// Why an agent's request is refused.
enum class Refusal {
  unknown,  // no such task of this client, or settled too long ago
  stale,    // this attempt's lease is over: another agent may have the task
  settled,  // the task is settled with another result
};

// Returns the longest lease for a task with this time left: a third, so that the next agent still has time if this one
// dies. In the last seconds a third is too short, so it is 1 s, or half of the rest.
[[nodiscard]] Time longest_lease(Time left);

class Tasks {
 public:
  explicit Tasks(TaskLimits limits = {}, TaskId last_id = 0) : limits_(limits), last_id_(last_id) {}

  // Errors: usage for an invalid name, payload or time to live; no_capacity if too many tasks are open.
  [[nodiscard]] Result<TaskId> submit(const Submission& submission, Time now);
  // Leases the client's oldest queued task in the next lane by round robin.
  [[nodiscard]] std::optional<Task> lease(const std::string& client, Time now);
  // Acknowledges a task and renews its lease for `work` from now, or less near the task's end (see longest_lease).
  // Returns the time granted.
  [[nodiscard]] std::expected<Time, Refusal> acknowledge(const std::string& client, TaskId id, unsigned attempt,
                                                         Time now);
  // Settles the task. The same attempt may repeat its result (the reply to it may have been lost); a different result
  // is refused (settled).
  [[nodiscard]] std::expected<void, Refusal> settle(const std::string& client, TaskId id, unsigned attempt, bool ok,
                                                    std::string result, Time now);
  // Handles the end of the stream that carried this attempt. An unacknowledged task goes to the next agent now. An
  // acknowledged one stays for up to `reconnect`, so that a live agent can acknowledge again.
  std::expected<void, Refusal> disconnect(const std::string& client, TaskId id, unsigned attempt, Time now);
  bool cancel(TaskId id, Time now);  // false: there is no such open task

  // Expires leases and tasks. All functions above call it first.
  void advance(Time now);
  [[nodiscard]] std::optional<Time> next_deadline() const;

  // Returns the tasks settled since the last call, in order.
  [[nodiscard]] std::vector<Task> take_settled() { return std::exchange(settled_, {}); }
  [[nodiscard]] const Task* find(TaskId id) const;
  [[nodiscard]] bool has_queued(const std::string& client) const;
  [[nodiscard]] std::vector<const Task*> of(const std::string& client) const;  // by ID
  [[nodiscard]] std::vector<std::string> clients() const;

 private:
  struct Client {
    // By lane, without empty ones; a returned task is older than the rest and comes first.
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
  std::set<std::pair<Time, TaskId>> deadlines_;  // one per task
  std::map<TaskId, Time> deadline_of_;
  std::vector<Task> settled_;
};

}  // namespace headgate::channel
