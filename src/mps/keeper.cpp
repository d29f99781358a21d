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
    show();                                    // so that `done` sees the group
    look_in(tenant.group, times_.after_news);  // it may wait behind another user
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

// Keeps a pidfd for each tenant and control daemon.
void Keeper::watch_processes() {
  std::set<std::pair<std::uint32_t, std::uint32_t>> wanted;
  for (const ProcessMark& mark : manager_.processes()) {
    if (!wanted.insert(key_of(mark)).second || pidfds_.contains(key_of(mark))) continue;
    if (UniqueFd pidfd = open_process(mark, proc_)) pidfds_.emplace(key_of(mark), std::move(pidfd));
    else ended(mark);
  }
  std::erase_if(pidfds_, [&](const auto& entry) { return !wanted.contains(entry.first); });
}

void Keeper::ended(const ProcessMark& mark) {
  for (const GroupKey& key : manager_.release(mark)) look_in(key, times_.after_news);
}

// The servers' file is watched, and not all of its directory, where the control daemon logs each of our questions. The
// directory says when the file is made again. Adding a watch that is there already returns it; a new one is news, as
// the server may have logged something before.
void Keeper::watch_logs() {
  std::map<GroupKey, LogWatch> wanted;
  for (const GroupView& group : manager_.groups()) {
    const auto places = places_of(base_, group.key);
    if (!places) continue;
    LogWatch& watch = wanted[group.key];
    watch.directory = ::inotify_add_watch(logs_.get(), places->log.c_str(), IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
    const std::string file = places->log + "/server.log";
    watch.file = ::inotify_add_watch(logs_.get(), file.c_str(), IN_MODIFY | IN_DONT_FOLLOW);
    if (log_watches_[group.key] != watch) look_in(group.key, times_.after_news);
  }
  for (const auto& [key, former] : log_watches_)
    for (const int watch : {former.directory, former.file})
      if (const LogWatch& now = wanted[key]; watch >= 0 && watch != now.directory && watch != now.file)
        ::inotify_rm_watch(logs_.get(), watch);
  std::erase_if(wanted, [](const auto& entry) { return entry.second == LogWatch{}; });
  log_watches_ = std::move(wanted);
}

void Keeper::look_in(const GroupKey& key, milliseconds span) {
  const auto at = Clock::now() + span;
  const auto [entry, is_new] = sooner_.emplace(key, at);
  if (!is_new) entry->second = std::min(entry->second, at);
}

void Keeper::read_logs() {
  alignas(inotify_event) std::array<char, 4096> bytes;
  for (ssize_t count = 0; (count = ::read(logs_.get(), bytes.data(), bytes.size())) > 0;) {
    for (ssize_t at = 0; at < count;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
      for (const auto& [key, watch] : log_watches_)
        if ((event->mask & IN_Q_OVERFLOW) != 0 || ((event->mask & IN_MODIFY) != 0 && watch.file == event->wd))
          look_in(key, times_.after_news);
      at += static_cast<ssize_t>(sizeof *event + event->len);
    }
  }
}

// Blocks until there is work, a process has ended or a check is due; returns the ended processes.
std::vector<ProcessMark> Keeper::wait() {
  std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {logs_.get(), POLLIN, 0}};
  for (const auto& [key, pidfd] : pidfds_) polled.push_back({pidfd.get(), POLLIN, 0});
  Clock::time_point next = next_look_;
  for (const auto& [key, at] : sooner_) next = std::min(next, at);
  const auto left = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
  ::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000)));
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
  read_logs();
  std::vector<ProcessMark> ended;
  std::size_t at = 2;
  for (const auto& [key, pidfd] : pidfds_)
    if (polled[at++].revents != 0) ended.push_back({key.first, key.second});
  return ended;
}

void Keeper::look_where_due() {
  const auto now = Clock::now();
  const bool all = now >= next_look_;
  std::vector<GroupKey> due;
  if (all)
    for (const GroupView& group : manager_.groups()) due.push_back(group.key);
  else
    for (const auto& [key, at] : sooner_)
      if (now >= at) due.push_back(key);
  for (const GroupKey& key : due) {
    sooner_.erase(key);
    manager_.look(key);
    if (manager_.is_unsettled(key)) look_in(key, times_.unsettled);
  }
  if (all) next_look_ = Clock::now() + times_.look;
}

void Keeper::run() {
  for (;;) {
    watch_processes();
    watch_logs();
    show();
    const auto all_ended = wait();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) break;
    }
    for (const ProcessMark& mark : all_ended) {
      pidfds_.erase(key_of(mark));
      ended(mark);
    }
    work_off();
    look_where_due();
  }
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  stopped_changed_.notify_all();
}

}  // namespace headgate::mps
