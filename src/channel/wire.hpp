// The JSON between channel and agents, as the channel writes and reads it. Described in docs/channel.md.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "channel/tasks.hpp"

namespace headgate::channel {

// Returns true if the text is JSON nested no deeper than 32: printing and freeing recurse, so deep input from peers
// could overflow the stack.
[[nodiscard]] bool is_json(std::string_view text);

[[nodiscard]] std::string assignment_text(const Task& task, Time now);
// {"tasks": [...]}
[[nodiscard]] std::string assignments_text(const std::vector<std::string>& assignments);

// The bodies of a "cancel" event and of the reply to an acknowledgement.
[[nodiscard]] std::string cancelled_text(TaskId id, State state);
[[nodiscard]] std::string granted_text(Time lease);

// The result of a permission task: {"allow": true} or {"allow": false}, optionally with "reason".
struct Leave {
  bool allow = false;
  std::string reason;
  friend bool operator==(const Leave&, const Leave&) = default;
};
[[nodiscard]] std::optional<Leave> parse_leave(std::string_view text);

// Parses "30s", "500ms" or "30" (seconds); longer times are cut to `most`.
[[nodiscard]] Result<std::chrono::milliseconds> parse_wait(std::string_view text, std::chrono::milliseconds most);

}  // namespace headgate::channel
