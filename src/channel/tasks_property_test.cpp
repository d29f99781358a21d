// Random sequences of actions by submitters, agents and time, against a model that checks every task at every step.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "channel/tasks.hpp"

namespace headgate::channel {
namespace {

using namespace std::chrono_literals;

constexpr TaskLimits kLimits{.clients = 8,
                             .open_per_client = 4,
                             .remembered_per_client = 1000,
                             .attempts = 2,
                             .lease = 5ns,
                             .work = 9ns,
                             .reconnect = 2ns,
                             .remember = 1h};

struct Model {
  std::vector<Task> tasks;
  std::vector<std::pair<TaskId, State>> settled;
  std::map<std::string, std::string> last_lane;  // by client
  Time now{};

  // A third of the time left, or half if that is at most a second, as always here; the last attempt gets all of it.
  Time lease_end(const Task& task, Time asked) const {
    const Time left = task.expires - now;
    return now + std::min(asked, task.attempt == kLimits.attempts ? left : left / 2);
  }
  static bool is_held(const Task& task) { return task.state == State::leased || task.state == State::working; }
  Task* find(TaskId id) { return id >= 1 && id <= tasks.size() ? &tasks[id - 1] : nullptr; }
  void end(Task& task, State state) {
    task.state = state;
    settled.emplace_back(task.id, state);
  }
  void back(Task& task) {
    if (task.attempt == kLimits.attempts) {
      end(task, State::abandoned);
    } else {
      task.state = State::queued;
    }
  }
  // Advances time instant by instant; tasks of one instant by ID.
  void pass(Time until) {
    for (; now <= until; ++now) {
      for (auto& task : tasks) {
        if (is_settled(task.state)) continue;
        if (now >= task.expires) {
          end(task, State::expired);
        } else if (is_held(task) && now >= task.lease_ends) {
          back(task);
        }
      }
    }
    now = until;
  }
  // Returns the oldest task of the lane after the one served last, or else of the first lane.
  Task* next(const std::string& client) {
    const auto rank = [&](const Task& task) { return std::tuple(task.lane <= last_lane[client], task.lane, task.id); };
    Task* found = nullptr;
    for (auto& task : tasks) {
      if (task.client != client || task.state != State::queued) continue;
      if (found == nullptr || rank(task) < rank(*found)) found = &task;
    }
    return found;
  }
  Task* held(const std::string& client, TaskId id, unsigned attempt) {
    Task* task = find(id);
    return task != nullptr && task->client == client && is_held(*task) && task->attempt == attempt ? task : nullptr;
  }
};

struct Step {
  int verb;
  int client;
  TaskId id;
  unsigned attempt;
  int time;
};

rc::Gen<Step> a_step() {
  return rc::gen::construct<Step>(rc::gen::inRange(0, 9), rc::gen::inRange(0, 2), rc::gen::inRange<TaskId>(1, 10),
                                  rc::gen::inRange(1U, 3U), rc::gen::inRange(0, 12));
}

void take(const Step& step, Tasks& tasks, Model& model, Time now) {
  const std::string client = step.client == 0 ? "a" : "b";
  switch (step.verb) {
    case 0:
    case 1: {
      const Time ttl(1 + step.time * 3);
      const auto open = std::ranges::count_if(
          model.tasks, [&](const Task& task) { return task.client == client && !is_settled(task.state); });
      const std::string lane = step.attempt == 1 ? "x" : "y";
      const auto submitted = tasks.submit({client, "k", "{}", ttl, lane}, now);
      RC_ASSERT(submitted.has_value() == (open < 4));
      if (!submitted) break;
      RC_ASSERT(*submitted == model.tasks.size() + 1);
      model.tasks.push_back(Task{.id = *submitted,
                                 .client = client,
                                 .kind = "k",
                                 .payload = "{}",
                                 .submitted = now,
                                 .expires = now + ttl,
                                 .lane = lane});
      break;
    }
    case 2:
    case 3: {
      const auto leased = tasks.lease(client, now);
      Task* const oldest = model.next(client);
      RC_ASSERT(leased.has_value() == (oldest != nullptr));
      if (!leased) break;
      RC_ASSERT(leased->id == oldest->id);
      model.last_lane[client] = oldest->lane;
      oldest->state = State::leased;
      ++oldest->attempt;
      oldest->lease_ends = model.lease_end(*oldest, kLimits.lease);
      break;
    }
    case 4: {
      Task* task = model.held(client, step.id, step.attempt);
      RC_ASSERT(tasks.acknowledge(client, step.id, step.attempt, now).has_value() == (task != nullptr));
      if (task == nullptr) break;
      task->state = State::working;
      task->lease_ends = model.lease_end(*task, kLimits.work);
      break;
    }
    case 5: {
      Task* task = model.held(client, step.id, step.attempt);
      const Task* known = model.find(step.id);
      const bool again =
          known != nullptr && known->client == client && known->state == State::done && known->attempt == step.attempt;
      RC_ASSERT(tasks.settle(client, step.id, step.attempt, true, "r", now).has_value() == (task != nullptr || again));
      if (task != nullptr) model.end(*task, State::done);
      break;
    }
    case 6:
    case 7: {
      Task* task = model.held(client, step.id, step.attempt);
      RC_ASSERT(tasks.disconnect(client, step.id, step.attempt, now).has_value() == (task != nullptr));
      if (task == nullptr) break;
      if (task->state == State::leased) {
        model.back(*task);
      } else {
        task->lease_ends = model.lease_end(*task, std::min(kLimits.reconnect, task->lease_ends - now));
      }
      break;
    }
    default: {
      Task* task = model.find(step.id);
      const bool open = task != nullptr && !is_settled(task->state);
      RC_ASSERT(tasks.cancel(step.id, now) == open);
      if (open) model.end(*task, State::cancelled);
    }
  }
}

TEST(TasksProperty, MatchTheModelAndSettleOnce) {
  EXPECT_TRUE(rc::check("tasks against the model", [] {
    const auto steps = *rc::gen::container<std::vector<Step>>(a_step());
    Tasks tasks(kLimits);
    Model model;
    Time now{};
    std::vector<std::pair<TaskId, State>> settled;
    for (const auto& step : steps) {
      now += Time(step.time);
      model.pass(now);
      take(step, tasks, model, now);
      for (const auto& task : tasks.take_settled()) settled.emplace_back(task.id, task.state);
      RC_ASSERT(settled == model.settled);
      for (const auto& expected : model.tasks) {
        const Task* task = tasks.find(expected.id);
        RC_ASSERT(task != nullptr);
        RC_ASSERT(task->state == expected.state);
        RC_ASSERT(task->attempt == expected.attempt);
      }
    }
    // Without further actions, every task settles.
    tasks.advance(now + 1s);
    for (const auto& expected : model.tasks) RC_ASSERT(is_settled(tasks.find(expected.id)->state));
  }));
}

}  // namespace
}  // namespace headgate::channel
