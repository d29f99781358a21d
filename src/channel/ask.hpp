// Asking an outside agent for leave: request, wait, allow or deny.
#pragma once

#include <functional>
#include <string>

#include "channel/channel.hpp"

namespace headgate::channel {

struct Decision {
  enum class Verdict {
    allow,
    deny,
    no_answer,  // expired, cancelled, abandoned, failed, or no answer to the question: the asker's default counts
  } verdict = Verdict::no_answer;
  std::string reason;  // the agent's words, or why there is no answer
  friend bool operator==(const Decision&, const Decision&) = default;
};

// `decided` is called once, later, on the loop's thread. Channel::cancel() with the task's id takes the question back.
// Errors: those of Channel::submit.
[[nodiscard]] Result<TaskId> ask(Channel& channel, const Submission& question,
                                 std::function<void(const Decision&)> decided);

}  // namespace headgate::channel
