#include "channel/tasks.hpp"

#include <algorithm>

namespace headgate::channel {
bool is_name(std::string_view text, std::size_t most) {
  return !text.empty() && text.size() <= most && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == ':' || c == '-';
  });
}

Time longest_lease(Time left) { return std::max(left / 3, std::min<Time>(std::chrono::seconds(1), left / 2)); }

std::string_view word(State state) {
  constexpr std::string_view kWords[] = {"queued", "leased",  "working",   "done",
                                         "failed", "expired", "cancelled", "abandoned"};
  return kWords[static_cast<std::size_t>(state)];
}

Result<void> Tasks::check(const Submission& submission) const {
  const std::string accepted =
      "accepted: 1 to " + std::to_string(limits_.name_bytes) + " of letters, digits, '.', '_', ':' and '-'";
  if (!is_name(submission.client, limits_.name_bytes)) {
    return fail(ErrorCode::usage, "'" + submission.client + "' is no name of a client", accepted);
  }
  if (!is_name(submission.kind, limits_.name_bytes)) {
    return fail(ErrorCode::usage, "'" + submission.kind + "' is no kind of task", accepted);
  }
  if (submission.payload.size() > limits_.payload_bytes) {
    return fail(ErrorCode::usage, "the payload has " + std::to_string(submission.payload.size()) + " bytes",
                "accepted: at most " + std::to_string(limits_.payload_bytes));
  }
  if (submission.time_to_live <= Time::zero() || submission.time_to_live > limits_.longest) {
    return fail(ErrorCode::usage, "the time to live is " + std::to_string(submission.time_to_live.count()) + " ns",
                "accepted: more than 0, at most " + std::to_string(limits_.longest.count()));
  }
  return {};
}

Result<TaskId> Tasks::submit(const Submission& submission, Time now) {
  advance(now);
  TRY(check(submission));
  const auto known = clients_.find(submission.client);
  if (known == clients_.end()) {
    if (clients_.size() >= limits_.clients) {
      return fail(ErrorCode::no_capacity, "tasks for " + std::to_string(clients_.size()) + " clients wait already");
    }
  } else if (known->second.all.size() - known->second.remembered.size() >= limits_.open_per_client) {
    return fail(ErrorCode::no_capacity,
                "client '" + submission.client + "' has " + std::to_string(limits_.open_per_client) + " open tasks",
                "is its agent running?");
  }
  Task task;
  task.id = ++last_id_;
  task.client = submission.client;
  task.kind = submission.kind;
  task.payload = submission.payload;
  task.lane = submission.lane;
  task.submitted = now;
  task.expires = now + submission.time_to_live;
  set_deadline(task, task.expires);
  clients_[task.client].all.insert(task.id);
  enqueue(task);
  tasks_.emplace(task.id, std::move(task));
  return last_id_;
}

std::optional<Task> Tasks::lease(const std::string& client, Time now) {
  advance(now);
  const auto known = clients_.find(client);
  if (known == clients_.end() || known->second.queued.empty()) return std::nullopt;
  Client& waiting = known->second;
  auto lane = waiting.queued.upper_bound(waiting.last_lane);
  if (lane == waiting.queued.end()) lane = waiting.queued.begin();
  waiting.last_lane = lane->first;
  Task& task = tasks_.at(*lane->second.begin());
  dequeue(task);
  ++task.attempt;
  hold(task, State::leased, limits_.lease, now);
  return task;
}

std::expected<Time, Refusal> Tasks::acknowledge(const std::string& client, TaskId id, unsigned attempt, Time now) {
  advance(now);
  Task& task = *TRY(held(client, id, attempt));
  hold(task, State::working, limits_.work, now);
  return task.lease_ends - now;
}

std::expected<void, Refusal> Tasks::settle(const std::string& client, TaskId id, unsigned attempt, bool ok,
                                           std::string result, Time now) {
  advance(now);
  const Task* known = find(id);
  const bool same = known != nullptr && known->client == client && known->attempt == attempt &&
                    known->state == (ok ? State::done : State::failed) && known->result == result;
  if (same) return {};
  Task& task = *TRY(held(client, id, attempt));
  task.result = std::move(result);
  end(task, ok ? State::done : State::failed, now);
  return {};
}

std::expected<void, Refusal> Tasks::disconnect(const std::string& client, TaskId id, unsigned attempt, Time now) {
  advance(now);
  Task& task = *TRY(held(client, id, attempt));
  if (task.state == State::leased) {
    lose_lease(task, now);
  } else {
    hold(task, State::working, std::min(limits_.reconnect, task.lease_ends - now), now);
  }
  return {};
}

bool Tasks::cancel(TaskId id, Time now) {
  advance(now);
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || is_settled(found->second.state)) return false;
  end(found->second, State::cancelled, now);
  return true;
}

void Tasks::advance(Time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto [due, id] = *deadlines_.begin();
    Task& task = tasks_.at(id);
    if (is_settled(task.state)) {
      forget(id);
    } else if (due >= task.expires) {
      end(task, State::expired, due);
    } else {
      lose_lease(task, due);
    }
  }
}

std::optional<Time> Tasks::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

const Task* Tasks::find(TaskId id) const {
  const auto found = tasks_.find(id);
  return found == tasks_.end() ? nullptr : &found->second;
}

bool Tasks::has_queued(const std::string& client) const {
  const auto known = clients_.find(client);
  return known != clients_.end() && !known->second.queued.empty();
}

std::vector<const Task*> Tasks::of(const std::string& client) const {
  std::vector<const Task*> all;
  const auto known = clients_.find(client);
  if (known == clients_.end()) return all;
  for (const TaskId id : known->second.all) all.push_back(find(id));
  return all;
}

std::vector<std::string> Tasks::clients() const {
  std::vector<std::string> names;
  for (const auto& [name, client] : clients_) names.push_back(name);
  return names;
}

std::expected<Task*, Refusal> Tasks::held(const std::string& client, TaskId id, unsigned attempt) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || found->second.client != client) return std::unexpected(Refusal::unknown);
  Task& task = found->second;
  if (is_settled(task.state)) return std::unexpected(Refusal::settled);
  if (task.state == State::queued || task.attempt != attempt) return std::unexpected(Refusal::stale);
  return &task;
}

void Tasks::enqueue(const Task& task) { clients_.at(task.client).queued[task.lane].insert(task.id); }

void Tasks::dequeue(const Task& task) {
  auto& queued = clients_.at(task.client).queued;
  const auto lane = queued.find(task.lane);
  if (lane == queued.end()) return;
  lane->second.erase(task.id);
  if (lane->second.empty()) queued.erase(lane);
}

void Tasks::set_deadline(const Task& task, Time at) {
  const auto before = deadline_of_.find(task.id);
  if (before != deadline_of_.end()) deadlines_.erase({before->second, task.id});
  deadline_of_[task.id] = at;
  deadlines_.insert({at, task.id});
}

void Tasks::hold(Task& task, State state, Time duration, Time now) {
  task.state = state;
  const Time left = task.expires - now;
  // The last attempt may use all the remaining time, because no other agent can have the task after it.
  task.lease_ends = now + std::min(duration, task.attempt < limits_.attempts ? longest_lease(left) : left);
  set_deadline(task, task.lease_ends);
}

void Tasks::lose_lease(Task& task, Time now) {
  if (task.attempt >= limits_.attempts) {
    end(task, State::abandoned, now);
    return;
  }
  task.state = State::queued;
  enqueue(task);
  set_deadline(task, task.expires);
}

void Tasks::end(Task& task, State state, Time now) {
  Client& client = clients_.at(task.client);
  dequeue(task);
  task.state = state;
  task.settled_at = now;
  settled_.push_back(task);
  set_deadline(task, now + limits_.remember);
  client.remembered.insert({now, task.id});
  if (client.remembered.size() > limits_.remembered_per_client) forget(client.remembered.begin()->second);
}

void Tasks::forget(TaskId id) {
  const auto found = tasks_.find(id);
  const auto known = clients_.find(found->second.client);
  known->second.all.erase(id);
  known->second.remembered.erase({found->second.settled_at, id});
  if (known->second.all.empty()) clients_.erase(known);
  const auto deadline = deadline_of_.find(id);
  deadlines_.erase({deadline->second, id});
  deadline_of_.erase(deadline);
  tasks_.erase(found);
}

}  // namespace headgate::channel
