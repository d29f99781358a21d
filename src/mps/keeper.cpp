#include "mps/keeper.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <optional>
#include <set>
#include <utility>

namespace headgate::mps {
namespace {

using std::chrono::milliseconds;

std::pair<std::uint32_t, std::uint32_t> key_of(const ProcessMark& mark) { return {mark.pid, mark.start_time}; }

}  // namespace

Keeper::Keeper(Manager::Options options, KeeperTimes times)
    : base_(options.base),
      proc_(options.proc),
      times_(times),
      manager_(std::move(options)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      logs_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

Keeper::~Keeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ::eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

Result<void> Keeper::start() {
  if (auto adopted = manager_.adopt(); !adopted) return adopted;
  next_look_ = Clock::now();
  stopped_ = false;
  thread_ = std::thread([this] { run(); });
  return {};
}

void Keeper::acquire(Tenant tenant, std::function<void(Result<Variables>)> done) {
  do_later([this, tenant = std::move(tenant), done = std::move(done)] {
    auto variables = manager_.acquire(tenant);
    show();                                                               // so that `done` sees the group
    next_look_ = std::min(next_look_, Clock::now() + times_.after_news);  // it may wait behind another user
    done(std::move(variables));
  });
}

void Keeper::take_off(pid_t client, std::function<void(Result<bool>)> done) {
  do_later([this, client, done = std::move(done)] { done(manager_.take_off(client)); });
}

Result<bool> Keeper::take_off(pid_t client, milliseconds patience) {
  const auto promise = std::make_shared<std::promise<Result<bool>>>();
  auto answer = promise->get_future();
  take_off(client, [promise](Result<bool> done) { promise->set_value(std::move(done)); });
  if (answer.wait_for(patience) == std::future_status::ready) return answer.get();
  return fail(ErrorCode::busy,
              "the MPS tool does not answer: process " + std::to_string(client) + " may be a client still");
}

std::vector<GroupView> Keeper::groups() const {
  const std::lock_guard lock(mutex_);
  return shown_;
}

bool Keeper::stop(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  ::eventfd_write(wake_.get(), 1);
  return stopped_changed_.wait_for(lock, patience, [this] { return stopped_; });
}

void Keeper::do_later(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  ::eventfd_write(wake_.get(), 1);
}

void Keeper::work_off() {
  for (;;) {
    std::function<void()> work;
    {
      const std::lock_guard lock(mutex_);
      if (work_.empty() || stopping_) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
    show();
  }
}

void Keeper::show() {
  auto groups = manager_.groups();
  const std::lock_guard lock(mutex_);
  shown_ = std::move(groups);
}

// Keeps a pidfd for each tenant and control daemon. The next wait() releases those that have already ended.
void Keeper::watch_processes() {
  std::set<std::pair<std::uint32_t, std::uint32_t>> wanted;
  const auto want = [&](const ProcessMark& mark) {
    if (!wanted.insert(key_of(mark)).second || pidfds_.contains(key_of(mark))) return;
    UniqueFd pidfd = open_process(mark, proc_);
    if (!pidfd) manager_.release(mark);
    else pidfds_.emplace(key_of(mark), std::move(pidfd));
  };
  for (const ProcessMark& mark : manager_.holders()) want(mark);
  for (const GroupView& group : manager_.groups())
    if (const auto mark = mark_of(group.daemon_pid, proc_)) want(*mark);
  std::erase_if(pidfds_, [&](const auto& entry) { return !wanted.contains(entry.first); });
}

// Watches are asked for each time: a directory that was made again is another one, and adding a watch that is there
// already returns it. What a server has logged before its directory is watched is news that no watch tells.
void Keeper::watch_logs() {
  std::map<std::string, int> wanted;
  for (const GroupView& group : manager_.groups()) {
    const auto places = places_of(base_, group.key);
    if (!places) continue;
    const int watch = ::inotify_add_watch(logs_.get(), places->log.c_str(), IN_MODIFY | IN_ONLYDIR);
    if (watch < 0) continue;
    wanted[places->log] = watch;
    const auto known = log_watches_.find(places->log);
    if (known == log_watches_.end() || known->second != watch) expect_news();
  }
  for (const auto& [path, watch] : log_watches_)
    if (const auto still = wanted.find(path); still == wanted.end() || still->second != watch)
      ::inotify_rm_watch(logs_.get(), watch);
  log_watches_ = std::move(wanted);
}

// A server may log a fault before the tool tells it, so some checks follow. They are counted, because a tool that is
// slow on a busy machine would take up a span of time with one of them.
void Keeper::expect_news() {
  next_look_ = std::min(next_look_, Clock::now() + times_.after_news);
  looks_after_news_ = times_.looks_after_news;
}

// Returns true if a server has logged something, or events were lost. The control daemon's own log is ignored, because
// it logs our queries.
bool Keeper::read_logs() const {
  alignas(inotify_event) std::array<char, 4096> bytes;
  bool news = false;
  for (;;) {
    const ssize_t count = ::read(logs_.get(), bytes.data(), bytes.size());
    if (count <= 0) return news;
    for (ssize_t at = 0; at < count;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
      news =
          news || (event->mask & IN_Q_OVERFLOW) != 0 || (event->len > 0 && std::strcmp(event->name, "server.log") == 0);
      at += static_cast<ssize_t>(sizeof *event + event->len);
    }
  }
}

// Blocks until there is work, a process has ended or a check is due; returns the ended processes.
std::vector<ProcessMark> Keeper::wait() {
  std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {logs_.get(), POLLIN, 0}};
  for (const auto& [key, pidfd] : pidfds_) polled.push_back({pidfd.get(), POLLIN, 0});
  const auto left = std::chrono::ceil<milliseconds>(next_look_ - Clock::now()).count();
  ::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000)));
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
  if (read_logs()) expect_news();
  std::vector<ProcessMark> ended;
  std::size_t at = 2;
  for (const auto& [key, pidfd] : pidfds_)
    if (polled[at++].revents != 0) ended.push_back({key.first, key.second});
  return ended;
}

void Keeper::run() {
  for (;;) {
    watch_processes();
    watch_logs();
    show();
    const auto ended = wait();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) break;
    }
    for (const ProcessMark& mark : ended) {
      pidfds_.erase(key_of(mark));
      manager_.release(mark);
      next_look_ = std::min(next_look_, Clock::now() + times_.after_news);
    }
    work_off();
    if (Clock::now() < next_look_) continue;
    manager_.look();
    looks_after_news_ = std::max(0, looks_after_news_ - 1);
    const bool again = manager_.is_recovering() || looks_after_news_ > 0;
    next_look_ = Clock::now() + (again ? times_.recover : times_.look);
  }
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  stopped_changed_.notify_all();
}

}  // namespace headgate::mps
