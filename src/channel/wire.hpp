// What channel and agents say to each other, as JSON and targets, both ways. docs/channel.md describes it to others.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "channel/tasks.hpp"

namespace headgate::channel {

// A task as its holder sees it.
struct Assignment {
  TaskId id = 0;
  unsigned attempt = 0;
  std::string kind;
  std::string payload;                  // JSON
  std::chrono::milliseconds lease{};    // to acknowledge; from when it was sent, as is the next
  std::chrono::milliseconds expires{};  // until nobody wants the answer any more
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// JSON that is not nested deeper than 32: what comes from others is printed and freed by functions that call
// themselves.
[[nodiscard]] bool is_json(std::string_view text);

[[nodiscard]] std::string assignment_text(const Task& task, Time now);
[[nodiscard]] Result<Assignment> parse_assignment(std::string_view text);
// {"tasks": [...]}
[[nodiscard]] std::string assignments_text(const std::vector<std::string>& assignments);
[[nodiscard]] Result<std::vector<Assignment>> parse_assignments(std::string_view text);

// What an event "cancel" and the answer to an acknowledgement say; nothing where the text says something else.
[[nodiscard]] std::string cancelled_text(TaskId id, State state);
[[nodiscard]] std::optional<TaskId> parse_cancelled(std::string_view text);
[[nodiscard]] std::string granted_text(Time lease);
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_granted(std::string_view text);

// The result of a task that asks for leave: {"allow": true} or {"allow": false}, with or without "reason".
struct Leave {
  bool allow = false;
  std::string reason;
  friend bool operator==(const Leave&, const Leave&) = default;
};
[[nodiscard]] std::optional<Leave> parse_leave(std::string_view text);

// "30s", "500ms", "30" (seconds); at most `most`, which a longer wish is cut to.
[[nodiscard]] Result<std::chrono::milliseconds> parse_wait(std::string_view text, std::chrono::milliseconds most);

[[nodiscard]] std::string tasks_target(std::string_view client);
[[nodiscard]] std::string acknowledge_target(std::string_view client, TaskId id, unsigned attempt);
[[nodiscard]] std::string result_target(std::string_view client, TaskId id, unsigned attempt, bool ok);

}  // namespace headgate::channel
