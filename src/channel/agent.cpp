#include "channel/agent.hpp"

#include <map>
#include <optional>
#include <random>
#include <utility>

#include "http/async_client.hpp"

namespace headgate::channel {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Agent::Impl {
  struct Job {
    explicit Job(http::Loop& loop, Backoff retry) : timer(loop), backoff(retry) {}
    Assignment task;
    Clock::time_point expires;
    bool handed_over = false;  // the handler has it
    struct Result {
      bool ok;
      std::string text;
    };
    std::optional<Result> result;
    http::Timer timer;
    Backoff backoff;
    std::unique_ptr<http::Call> call;
  };

  Impl(http::Loop& on, AgentOptions given, Handlers theirs)
      : loop(on),
        options(std::move(given)),
        handlers(std::move(theirs)),
        backoff(options.backoff, std::random_device()()),
        reconnect(loop) {}

  http::OutgoingRequest request(std::string method, std::string target, std::string body = {}) const;
  void connect();
  void disconnected();
  void keep_all();
  void set_connected(bool now);
  void arrived(const http::Event& event);
  void withdraw(TaskId id);
  void acknowledge(TaskId id);
  void acknowledged(TaskId id, const Result<http::IncomingResponse>& response);
  void post_result(TaskId id);
  void posted(TaskId id, const Result<http::IncomingResponse>& response);
  void again(Job& job, void (Impl::*step)(TaskId));

  http::Loop& loop;
  const AgentOptions options;
  const Handlers handlers;
  Backoff backoff;
  http::Timer reconnect;
  std::unique_ptr<http::Call> stream;
  bool connected = false;
  std::map<TaskId, Job> jobs;
};

Agent::Agent(http::Loop& loop, AgentOptions options, Handlers handlers)
    : impl_(std::make_unique<Impl>(loop, std::move(options), std::move(handlers))) {
  impl_->connect();
}

Agent::~Agent() = default;

bool Agent::connected() const { return impl_->connected; }

std::size_t Agent::in_hand() const { return impl_->jobs.size(); }

void Agent::answer(TaskId id, bool ok, std::string result) {
  const auto found = impl_->jobs.find(id);
  if (found == impl_->jobs.end() || found->second.result) return;
  found->second.result = {ok, std::move(result)};
  found->second.backoff.succeeded();
  impl_->post_result(id);
}

http::OutgoingRequest Agent::Impl::request(std::string method, std::string target, std::string body) const {
  http::OutgoingRequest request{.method = std::move(method), .target = std::move(target), .body = std::move(body)};
  if (!options.token.empty()) request.headers.push_back({"Authorization", "Bearer " + options.token});
  return request;
}

void Agent::Impl::connect() {
  stream = http::subscribe(loop, options.server, request("GET", tasks_target(options.client)), options.deadline,
                           options.silence,
                           {.opened =
                                [this] {
                                  backoff.succeeded();
                                  keep_all();
                                  set_connected(true);
                                },
                            .event = [this](const http::Event& event) { arrived(event); },
                            .ended = [this](const Result<void>&) { disconnected(); }});
}

void Agent::Impl::disconnected() {
  stream.reset();
  reconnect.start(backoff.next(), [this] { connect(); });
  set_connected(false);
}

// With a stream the server cuts the leases of what it carried, so acknowledge again all that is in hand.
void Agent::Impl::keep_all() {
  for (auto& [id, job] : jobs) {
    if (job.handed_over && !job.result) acknowledge(id);
  }
}

void Agent::Impl::set_connected(bool now) {
  if (std::exchange(connected, now) != now && handlers.connection) handlers.connection(now);
}

void Agent::Impl::arrived(const http::Event& event) {
  if (event.name == "cancel") {
    if (const auto id = parse_cancelled(event.data)) withdraw(*id);
    return;
  }
  if (event.name != "task") return;  // a newer server may say more
  auto task = parse_assignment(event.data);
  if (!task) return;
  const TaskId id = task->id;
  withdraw(id);  // another attempt: what we knew of the one before is over
  Job& job = jobs.try_emplace(id, loop, Backoff(options.backoff, id)).first->second;
  job.expires = Clock::now() + task->expires;
  job.task = std::move(*task);
  acknowledge(id);
}

void Agent::Impl::withdraw(TaskId id) {
  const auto job = jobs.extract(id);
  if (!job.empty() && job.mapped().handed_over && handlers.withdrawn) handlers.withdrawn(id);
}

void Agent::Impl::acknowledge(TaskId id) {
  Job& job = jobs.at(id);
  job.call = http::exchange(loop, options.server,
                            request("POST", acknowledge_target(options.client, id, job.task.attempt)), options.deadline,
                            [this, id](const Result<http::IncomingResponse>& response) { acknowledged(id, response); });
}

void Agent::Impl::acknowledged(TaskId id, const Result<http::IncomingResponse>& response) {
  Job& job = jobs.at(id);
  if (!response || response->status >= 500) return again(job, &Impl::acknowledge);
  const auto lease = response->status == 200 ? parse_granted(response->body) : std::nullopt;
  if (!lease) return withdraw(id);
  job.backoff.succeeded();
  // Half of the lease leaves time for tries that fail.
  job.timer.start(*lease / 2, [this, id] { acknowledge(id); });
  if (std::exchange(job.handed_over, true)) return;
  const Assignment task = job.task;  // its answer may be the end of the job
  handlers.task(task);
}

void Agent::Impl::post_result(TaskId id) {
  Job& job = jobs.at(id);
  job.timer.cancel();
  job.call = http::exchange(
      loop, options.server,
      request("POST", result_target(options.client, id, job.task.attempt, job.result->ok), job.result->text),
      options.deadline, [this, id](const Result<http::IncomingResponse>& response) { posted(id, response); });
}

void Agent::Impl::posted(TaskId id, const Result<http::IncomingResponse>& response) {
  if (!response || response->status >= 500) return again(jobs.at(id), &Impl::post_result);
  if (response->status == 200) {
    jobs.erase(id);
  } else {
    withdraw(id);
  }
}

void Agent::Impl::again(Job& job, void (Impl::*step)(TaskId)) {
  const TaskId id = job.task.id;
  const auto wait = job.backoff.next();
  if (Clock::now() + wait >= job.expires) return withdraw(id);
  job.timer.start(wait, [this, id, step] { (this->*step)(id); });
}

}  // namespace headgate::channel
