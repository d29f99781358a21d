#include "channel/channel.hpp"

#include <algorithm>
#include <list>
#include <nlohmann/json.hpp>

#include "base/now.hpp"
#include "base/whole_number.hpp"
#include "channel/wire.hpp"

namespace headgate::channel {

using http::Request;
using http::Response;
using std::chrono::milliseconds;

namespace {

// IDs start at the time since 1970, so that an agent that holds a task of a former server cannot match one of ours.
// They stay below 2^53, which JSON readers represent exactly.
TaskId last_id_before_us() { return unix_now_ns() / 1'000'000 * 1000; }

Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

Response refusal_response(Refusal refusal) {
  switch (refusal) {
    case Refusal::stale:
      return http::error_response(409, "stale", "the lease of this attempt is over",
                                  "drop the task: it goes to the next client that pulls");
    case Refusal::settled:
      return http::error_response(410, "settled", "the task is settled: expired, cancelled, or answered by another",
                                  "drop the task");
    case Refusal::unknown: break;
  }
  return http::error_response(404, "not_found", "this client has no such task, or had it too long ago",
                              "drop the task");
}

template <typename Number>
std::optional<Number> number(const std::string* text) {
  return text == nullptr ? std::nullopt : whole_number<Number>(*text);
}

bool wants_events(const Request& request) {
  const std::string* accept = http::find(request.headers, "accept");
  return accept != nullptr && accept->contains("text/event-stream");
}

}  // namespace

struct Channel::Impl : std::enable_shared_from_this<Channel::Impl> {
  struct Stream {
    std::shared_ptr<http::EventStream> events;
    std::map<TaskId, unsigned> held;  // task -> attempt
  };
  struct Poll {
    http::Reply reply;
    Time until;
    std::uint64_t number;
  };
  struct Waiting {
    std::list<Stream> streams;
    std::list<Poll> polls;
  };

  Impl(http::Loop& loop, ChannelOptions given)
      : options(std::move(given)), tasks(options.limits, last_id_before_us()), timer(loop) {}

  void stop();
  // Applies the consequences of a change: hands out tasks, notifies submitters, sets the timer.
  void follow_up();
  bool tell_submitters();
  void hand_out(const std::string& client, Waiting& waiting);
  void end_polls();
  void set_timer();

  // Returns nullopt if the request is permitted.
  std::optional<Response> deny(const Request& request, const std::string& client) const;
  void pull(const Request& request, const http::Reply& reply);
  Response open_stream(const std::string& client);
  void add_poll(const std::string& client, const http::Reply& reply, milliseconds wait);
  void stream_closed(const std::string& client, const http::EventStream* events);
  void poll_gone(const std::string& client, std::uint64_t number);
  Response acknowledge(const Request& request);
  Response settle(const Request& request);
  Response describe(const std::string& client) const;
  Response describe_all() const;

  const ChannelOptions options;
  Tasks tasks;
  std::map<TaskId, Settled> submitters;
  std::map<std::string, Waiting> waiting;
  http::Timer timer;
  std::uint64_t last_poll = 0;
  bool following_up = false;
  bool stopped = false;
};

Channel::Channel(http::Loop& loop, ChannelOptions options) : impl_(std::make_shared<Impl>(loop, std::move(options))) {}

Channel::~Channel() { impl_->stop(); }

Result<TaskId> Channel::submit(const Submission& submission, Settled settled) {
  if (!is_json(submission.payload)) {
    return fail(ErrorCode::usage, "the payload of a task for '" + submission.client + "' is no JSON",
                "accepted: JSON nested at most 32 deep");
  }
  const TaskId id = TRY(impl_->tasks.submit(submission, now()));
  impl_->submitters.emplace(id, std::move(settled));
  impl_->follow_up();
  return id;
}

bool Channel::cancel(TaskId id) {
  const bool cancelled = impl_->tasks.cancel(id, now());
  impl_->follow_up();
  return cancelled;
}

std::size_t Channel::listeners(const std::string& client) const {
  const auto found = impl_->waiting.find(client);
  return found == impl_->waiting.end() ? 0 : found->second.streams.size() + found->second.polls.size();
}

const Task* Channel::find(TaskId id) const { return impl_->tasks.find(id); }

void Channel::add_routes(http::Router& router) {
  const auto impl = impl_;
  // Checks access to `client` first; `answer` runs only if the caller may.
  const auto guarded = [impl](auto answer) {
    return [impl, answer](const Request& request) {
      const std::string* client = request.parameter("client");
      const std::string name = client == nullptr ? std::string() : *client;
      auto denied = impl->deny(request, name);
      return denied ? std::move(*denied) : answer(request, name);
    };
  };
  router.add("GET", "/v1/channel",
             guarded([impl](const Request&, const std::string&) { return impl->describe_all(); }));
  router.add("GET", "/v1/channel/{client}",
             guarded([impl](const Request&, const std::string& client) { return impl->describe(client); }));
  router.add_later("GET", "/v1/channel/{client}/tasks",
                   [impl](const Request& request, const http::Reply& reply) { impl->pull(request, reply); });
  router.add("POST", "/v1/channel/{client}/tasks/{id}/ack",
             guarded([impl](const Request& request, const std::string&) { return impl->acknowledge(request); }));
  router.add("POST", "/v1/channel/{client}/tasks/{id}/result",
             guarded([impl](const Request& request, const std::string&) { return impl->settle(request); }));
}

void Channel::Impl::stop() {
  stopped = true;
  timer.cancel();
  submitters.clear();
  for (auto& [client, waiters] : std::exchange(waiting, {})) {
    for (const auto& stream : waiters.streams) stream.events->finish();
    for (const auto& poll : waiters.polls) poll.reply(http::json_reply(assignments_text({})));
  }
}

void Channel::Impl::follow_up() {
  if (stopped || following_up) return;  // a callback submitted a task; the loop below handles it
  following_up = true;
  const auto self = shared_from_this();  // a callback may destroy the channel
  do {
    tasks.advance(now());
    for (auto& [client, waiters] : waiting) hand_out(client, waiters);
  } while (tell_submitters() && !stopped);
  following_up = false;
  if (stopped) return;
  end_polls();
  set_timer();
}

bool Channel::Impl::tell_submitters() {
  const auto settled = tasks.take_settled();
  for (const auto& task : settled) {
    const auto waiters = waiting.find(task.client);
    if (waiters != waiting.end()) {
      for (auto& stream : waiters->second.streams) {
        if (stream.held.erase(task.id) == 0 || task.state == State::done || task.state == State::failed) continue;
        stream.events->push({"cancel", cancelled_text(task.id, task.state), ""});
      }
    }
    auto submitter = submitters.extract(task.id);
    if (!submitter.empty() && submitter.mapped()) submitter.mapped()(task);
    if (stopped) break;
  }
  return !settled.empty();
}

void Channel::Impl::hand_out(const std::string& client, Waiting& waiters) {
  // Tasks with an expired lease no longer count against the stream's window.
  for (auto& stream : waiters.streams) {
    std::erase_if(stream.held, [&](const auto& entry) {
      const Task* task = tasks.find(entry.first);
      return task == nullptr || task->state == State::queued || task->attempt != entry.second;
    });
  }
  while (tasks.has_queued(client)) {
    if (!waiters.polls.empty()) {
      const Time at = now();
      const auto task = tasks.lease(client, at);
      if (!task) return;
      const Poll poll = std::move(waiters.polls.front());
      waiters.polls.pop_front();
      poll.reply(http::json_reply(assignments_text({assignment_text(*task, at)})));
      continue;
    }
    const auto idlest =
        std::ranges::min_element(waiters.streams, {}, [](const Stream& stream) { return stream.held.size(); });
    if (idlest == waiters.streams.end() || idlest->held.size() >= options.window) return;
    const Time at = now();
    const auto task = tasks.lease(client, at);
    if (!task) return;
    idlest->held[task->id] = task->attempt;
    idlest->events->push({"task", assignment_text(*task, at), ""});
  }
}

void Channel::Impl::end_polls() {
  const Time at = now();
  for (auto client = waiting.begin(); client != waiting.end();) {
    std::erase_if(client->second.polls, [&](const Poll& poll) {
      if (poll.until > at) return false;
      poll.reply(http::json_reply(assignments_text({})));
      return true;
    });
    const bool nobody = client->second.polls.empty() && client->second.streams.empty();
    client = nobody ? waiting.erase(client) : std::next(client);
  }
}

void Channel::Impl::set_timer() {
  std::optional<Time> next = tasks.next_deadline();
  for (const auto& [client, waiters] : waiting) {
    for (const auto& poll : waiters.polls) next = next ? std::min(*next, poll.until) : poll.until;
  }
  if (!next) {
    timer.cancel();
    return;
  }
  timer.start(std::max(*next - now(), Time::zero()), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->follow_up();
  });
}

// Checked first: nothing else of an unauthorised request is looked at.
std::optional<Response> Channel::Impl::deny(const Request& request, const std::string& client) const {
  if (stopped) return http::error_response(Error{ErrorCode::unreachable, "the channel is closed", "try again later"});
  if (auto allowed = options.authorise(request, client); !allowed) return http::error_response(allowed.error());
  if (request.parameter("client") != nullptr && !is_name(client, options.limits.name_bytes))
    return http::error_response(400, "usage", "'" + client + "' is no name of a client",
                                "accepted: letters, digits, '.', '_', ':' and '-'");
  return std::nullopt;
}

void Channel::Impl::pull(const Request& request, const http::Reply& reply) {
  const std::string client = *request.parameter("client");
  if (auto denied = deny(request, client)) return reply(std::move(*denied));
  if (wants_events(request)) {
    reply(open_stream(client));
  } else {
    const std::string* wish = request.query_value("wait");
    const auto wait = parse_wait(wish == nullptr ? "0" : *wish, options.longest_poll);
    if (!wait) return reply(http::error_response(wait.error()));
    add_poll(client, reply, *wait);
  }
  follow_up();
}

Response Channel::Impl::open_stream(const std::string& client) {
  Response response;
  response.stream = std::make_shared<http::EventStream>();
  response.stream->on_close([weak = weak_from_this(), client, events = response.stream.get()] {
    if (const auto self = weak.lock()) self->stream_closed(client, events);
  });
  waiting[client].streams.push_back({response.stream, {}});
  return response;
}

// The stream's tasks may not have arrived, or its agent may be dead, so other agents need not wait for the leases to
// end.
void Channel::Impl::stream_closed(const std::string& client, const http::EventStream* events) {
  const auto found = waiting.find(client);
  if (found == waiting.end()) return;
  auto& streams = found->second.streams;
  const auto stream = std::ranges::find_if(streams, [&](const Stream& one) { return one.events.get() == events; });
  if (stream == streams.end()) return;
  const auto held = std::move(stream->held);
  streams.erase(stream);
  for (const auto& [id, attempt] : held) {
    (void)tasks.disconnect(client, id, attempt, now());  // refused if the attempt is over
  }
  follow_up();
}

void Channel::Impl::add_poll(const std::string& client, const http::Reply& reply, milliseconds wait) {
  const std::uint64_t number = ++last_poll;
  reply.on_gone([weak = weak_from_this(), client, number] {
    if (const auto self = weak.lock()) self->poll_gone(client, number);
  });
  waiting[client].polls.push_back({reply, now() + wait, number});
}

void Channel::Impl::poll_gone(const std::string& client, std::uint64_t number) {
  const auto found = waiting.find(client);
  if (found == waiting.end()) return;
  std::erase_if(found->second.polls, [&](const Poll& poll) { return poll.number == number; });
  follow_up();
}

Response Channel::Impl::acknowledge(const Request& request) {
  const auto id = number<TaskId>(request.parameter("id"));
  const auto attempt = number<unsigned>(request.query_value("attempt"));
  if (!id || !attempt) {
    return http::error_response(400, "usage", "an acknowledgement names its task and attempt",
                                "accepted: .../tasks/7/ack?attempt=1");
  }
  const auto granted = tasks.acknowledge(*request.parameter("client"), *id, *attempt, now());
  follow_up();
  if (!granted) return refusal_response(granted.error());
  return http::json_reply(granted_text(*granted));
}

Response Channel::Impl::settle(const Request& request) {
  const auto id = number<TaskId>(request.parameter("id"));
  const auto attempt = number<unsigned>(request.query_value("attempt"));
  const std::string* ok = request.query_value("ok");
  if (!id || !attempt || (ok != nullptr && *ok != "true" && *ok != "false")) {
    return http::error_response(400, "usage", "a result names its task and attempt",
                                "accepted: .../tasks/7/result?attempt=1, with &ok=false for a failure");
  }
  const bool done = ok == nullptr || *ok == "true";
  if (request.body.size() > options.limits.payload_bytes || (done && !is_json(request.body))) {
    return http::error_response(400, "usage", "this body is no result",
                                "accepted: JSON nested at most 32 deep (any text with ok=false), of at most " +
                                    std::to_string(options.limits.payload_bytes) + " bytes");
  }
  const auto taken = tasks.settle(*request.parameter("client"), *id, *attempt, done, request.body, now());
  follow_up();
  if (!taken) return refusal_response(taken.error());
  return http::json_reply(done ? "{\"state\":\"done\"}" : "{\"state\":\"failed\"}");
}

Response Channel::Impl::describe(const std::string& client) const {
  const auto waiters = waiting.find(client);
  nlohmann::ordered_json body = {{"client", client},
                                 {"streams", waiters == waiting.end() ? 0 : waiters->second.streams.size()},
                                 {"polls", waiters == waiting.end() ? 0 : waiters->second.polls.size()},
                                 {"tasks", nlohmann::ordered_json::array()}};
  const Time at = now();
  for (const Task* task : tasks.of(client)) {
    body["tasks"].push_back({{"id", task->id},
                             {"kind", task->kind},
                             {"state", word(task->state)},
                             {"attempt", task->attempt},
                             {"age_ms", std::chrono::duration_cast<milliseconds>(at - task->submitted).count()}});
  }
  return http::json_reply(body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

Response Channel::Impl::describe_all() const {
  std::set<std::string> names;
  for (const auto& name : tasks.clients()) names.insert(name);
  for (const auto& [name, waiters] : waiting) names.insert(name);
  return http::json_reply(nlohmann::ordered_json{{"clients", names}}.dump());
}

}  // namespace headgate::channel
