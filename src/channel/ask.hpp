// Asks an external agent for permission: request, wait, allow or deny.
#pragma once

#include <functional>
#include <string>

#include "channel/channel.hpp"

namespace headgate::channel {

struct Decision {
  enum class Verdict {
    allow,
    deny,
    no_answer,  // expired, cancelled, abandoned, failed, or not a valid answer: the asker's default applies
  } verdict = Verdict::no_answer;
  std::string reason;  // from the agent, or why there is no answer
  friend bool operator==(const Decision&, const Decision&) = default;
};

// Calls `decided` once, later, on the loop's thread. Channel::cancel() with the task's ID withdraws the question.
// Errors: those of Channel::submit.
[[nodiscard]] Result<TaskId> ask(Channel& channel, const Submission& question,
                                 std::function<void(const Decision&)> decided);

}  // namespace headgate::channel
