#include "channel/ask.hpp"

#include <utility>

#include "channel/wire.hpp"

namespace headgate::channel {
namespace {

Decision decision_of(const Task& task) {
  using Verdict = Decision::Verdict;
  const std::string agent = "the agent of '" + task.client + "'";
  switch (task.state) {
    case State::done:
      if (const auto leave = parse_leave(task.result)) {
        return {leave->allow ? Verdict::allow : Verdict::deny, leave->reason};
      }
      return {Verdict::no_answer, agent + " answered without saying \"allow\": true or false"};
    case State::failed: return {Verdict::no_answer, agent + " failed: " + task.result};
    case State::expired:
      return {Verdict::no_answer,
              task.attempt == 0 ? agent + " did not come in time" : agent + " did not answer in time"};
    case State::abandoned:
      return {Verdict::no_answer,
              agent + " took the question " + std::to_string(task.attempt) + " times and never answered"};
    default: return {Verdict::no_answer, "the question was withdrawn"};
  }
}

}  // namespace

Result<TaskId> ask(Channel& channel, const Submission& question, std::function<void(const Decision&)> decided) {
  return channel.submit(question, [decided = std::move(decided)](const Task& task) { decided(decision_of(task)); });
}

}  // namespace headgate::channel
