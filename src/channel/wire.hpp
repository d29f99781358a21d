// The JSON and request targets between channel and agents, formatted and parsed. Described in docs/channel.md.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "channel/tasks.hpp"

namespace headgate::channel {

// A task as sent to its holder.
struct Assignment {
  TaskId id = 0;
  unsigned attempt = 0;
  std::string kind;
  std::string payload;                  // JSON
  std::chrono::milliseconds lease{};    // to acknowledge; counted from sending, as is the next
  std::chrono::milliseconds expires{};  // after it, the answer is not needed
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// Returns true if the text is JSON nested no deeper than 32: printing and freeing recurse, so deep input from peers
// could overflow the stack.
[[nodiscard]] bool is_json(std::string_view text);

[[nodiscard]] std::string assignment_text(const Task& task, Time now);
[[nodiscard]] Result<Assignment> parse_assignment(std::string_view text);
// {"tasks": [...]}
[[nodiscard]] std::string assignments_text(const std::vector<std::string>& assignments);
[[nodiscard]] Result<std::vector<Assignment>> parse_assignments(std::string_view text);

// The bodies of a "cancel" event and of the reply to an acknowledgement; the parsers return nothing for other text.
[[nodiscard]] std::string cancelled_text(TaskId id, State state);
[[nodiscard]] std::optional<TaskId> parse_cancelled(std::string_view text);
[[nodiscard]] std::string granted_text(Time lease);
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_granted(std::string_view text);

// The result of a permission task: {"allow": true} or {"allow": false}, optionally with "reason".
struct Leave {
  bool allow = false;
  std::string reason;
  friend bool operator==(const Leave&, const Leave&) = default;
};
[[nodiscard]] std::optional<Leave> parse_leave(std::string_view text);

// Parses "30s", "500ms" or "30" (seconds); longer times are cut to `most`.
[[nodiscard]] Result<std::chrono::milliseconds> parse_wait(std::string_view text, std::chrono::milliseconds most);

[[nodiscard]] std::string tasks_target(std::string_view client);
[[nodiscard]] std::string acknowledge_target(std::string_view client, TaskId id, unsigned attempt);
[[nodiscard]] std::string result_target(std::string_view client, TaskId id, unsigned attempt, bool ok);

}  // namespace headgate::channel
