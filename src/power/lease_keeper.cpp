#include "power/lease_keeper.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/now.hpp"

namespace headgate::power {
namespace {

constexpr int kMaxWaitMs = 60'000;

std::uint64_t ns_of(std::chrono::nanoseconds time) { return static_cast<std::uint64_t>(time.count()); }

}  // namespace

std::unexpected<Error> no_lease(const std::string& id) {
  return fail(ErrorCode::not_found, "there is no lease '" + id + "'", "GET /v1/power/leases lists them");
}

Caller caller_of(const Lease& lease) { return {.text = describe(lease), .uid = lease.owner_uid, .quiet = true}; }

LeaseKeeper::LeaseKeeper(ControlQueues& queues, Options options)
    : io_(queues, options.patience), options_(std::move(options)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

LeaseKeeper::~LeaseKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

Result<void> LeaseKeeper::start() {
  auto leases = TRY(load_leases(options_.file));
  thread_ = std::thread([this] { run(); });
  const std::lock_guard lock(mutex_);
  for (Lease& lease : leases) {
    leases_[lease.id].lease = lease;
    work_.push_back([this, lease] { adopt(lease); });
  }
  wake();
  return {};
}

void LeaseKeeper::wake() const {
  const std::uint64_t one = 1;
  // If the counter is full, a wake-up is pending anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void LeaseKeeper::do_later(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  wake();
}

void LeaseKeeper::create(LeaseTerms terms, std::uint32_t owner_uid, std::function<void(Result<Lease>)> done) {
  do_later([this, terms = std::move(terms), owner_uid, done = std::move(done)] { done(make(terms, owner_uid)); });
}

void LeaseKeeper::end(const std::string& id, std::function<void(Result<void>)> done) {
  do_later([this, id, done = std::move(done)] { done(put_back(id, "it was given back", false)); });
}

void LeaseKeeper::keep(const std::string& id, std::function<void(Result<void>)> done) {
  do_later([this, id, done = std::move(done)] { done(forget(id)); });
}

void LeaseKeeper::give_up_persistence(const std::string& gpu, std::uint32_t seconds,
                                      std::function<void(Result<void>)> done) {
  do_later([this, gpu, seconds, done = std::move(done)] { done(pause(gpu, seconds)); });
}

void LeaseKeeper::set_site(SettingsByGpu site, std::function<void(Result<void>)> done) {
  do_later([this, site = std::move(site), done = std::move(done)] { done(make_site(site)); });
}

void LeaseKeeper::begin_session_write(SessionWrite write, std::function<void(Result<void>)> done) {
  do_later([this, write = std::move(write), done = std::move(done)] { done(save_before(write)); });
}

bool LeaseKeeper::covers(const SessionWrite& write) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, held] : leases_) {
    if (!held.lease.session || held.lease.holder_pid != write.holder_pid || held.ends_at_ns != 0 || held.lease.ending)
      continue;
    return std::ranges::all_of(write.uuids, [&](const std::string& uuid) {
      const auto saved = held.lease.saved.find(uuid);
      return saved != held.lease.saved.end() && without(named_by(write.command), saved->second).empty();
    });
  }
  return false;
}

Result<Lease> LeaseKeeper::prolong(const std::string& id) {
  Lease lease;
  std::int64_t before_s = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = leases_.find(id);
    if (found == leases_.end() || found->second.lease.ending) return no_lease(id);
    if (found->second.lease.ttl_s == 0)
      return fail(ErrorCode::usage, "lease " + id + " has no ttl: it ends with its process", "nothing to do");
    before_s = std::exchange(found->second.lease.ends_at_s, options_.now_s() + found->second.lease.ttl_s);
    lease = found->second.lease;
  }
  TRY(save_or([&] {
    if (const auto found = leases_.find(id); found != leases_.end()) found->second.lease.ends_at_s = before_s;
  }));
  wake();
  return lease;
}

std::vector<Lease> LeaseKeeper::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Lease> all;
  for (const auto& [id, held] : leases_) all.push_back(held.lease);
  return all;
}

std::optional<Lease> LeaseKeeper::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = leases_.find(id);
  return found == leases_.end() ? std::nullopt : std::optional(found->second.lease);
}

std::optional<Lease> LeaseKeeper::holder_of(const std::string& uuid, const Command& command) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, held] : leases_) {
    if (held.lease.holds(uuid, command)) return held.lease;
  }
  return std::nullopt;
}

bool LeaseKeeper::stop(std::chrono::nanoseconds patience) {
  do_later([this] {
    for (const Lease& lease : list()) (void)put_back(lease.id, "the daemon ends", !lease.ending);
    const std::lock_guard ending(mutex_);
    stopping_ = stopped_ = true;
    stopped_changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  return stopped_changed_.wait_for(lock, patience, [this] { return stopped_; });
}

void LeaseKeeper::run() {
  for (;;) {
    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
    std::vector<std::string> ids;
    int wait_ms = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      wait_ms = work_.empty() ? next_wait_ms() : 0;
      for (const auto& [id, held] : leases_) {
        if (!held.pidfd || held.lease.ending || held.ends_at_ns != 0) continue;
        polled.push_back({held.pidfd.get(), POLLIN, 0});
        ids.push_back(id);
      }
    }
    if (::poll(polled.data(), polled.size(), wait_ms) < 0 && errno != EINTR) return;
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = ::read(wake_.get(), &count, sizeof count);
    std::vector<std::string> ended;
    for (std::size_t i = 1; i < polled.size(); ++i)
      if (polled[i].revents != 0) ended.push_back(ids[i - 1]);
    look_at_holders(ended);
    work_off();
    check_settings();
  }
}

// Returns the time until a TTL ends or a retry is due.
int LeaseKeeper::next_wait_ms() const {
  const std::uint64_t now_ns = steady_now_ns();
  std::int64_t wait_ms = kMaxWaitMs;
  const auto wait_until = [&](std::uint64_t at_ns) {
    const std::uint64_t left_ns = at_ns - std::min(at_ns, now_ns);
    wait_ms = std::min<std::int64_t>(wait_ms, static_cast<std::int64_t>((left_ns + 999'999) / 1'000'000));
  };
  for (const auto& [id, held] : leases_) {
    if (held.lease.ending) wait_until(held.retry_at_ns);
    else if (held.ends_at_ns != 0) wait_until(held.ends_at_ns);
    else if (held.lease.ttl_s != 0)
      wait_ms = std::min(wait_ms, std::max<std::int64_t>(0, held.lease.ends_at_s - options_.now_s()) * 1000);
  }
  if (!leases_.empty()) wait_until(next_check_ns_);
  return static_cast<int>(wait_ms);
}

void LeaseKeeper::check_settings() {
  const std::uint64_t now_ns = steady_now_ns();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || now_ns < next_check_ns_) return;
    next_check_ns_ = now_ns + ns_of(options_.check);
  }
  for (const Lease& lease : list()) {
    if (lease.ending) continue;
    const Drift drift = drift_of(lease);
    const bool again = !drift.what.empty() && options_.reapply;
    bool news = false;
    {
      const std::lock_guard lock(mutex_);
      const auto found = leases_.find(lease.id);
      if (found == leases_.end()) continue;
      news = !drift.what.empty() && (found->second.drift != drift.what || drift.reloaded);
      found->second.drift = again ? "" : drift.what;
    }
    if (news)
      tell(true, lease,
           "no longer holds: " + drift.what +
               (drift.reloaded ? " (the driver was reloaded, or the GPU reset)" : " (another program set it)"));
    if (!again) continue;
    if (auto applied = io_.apply(lease.wanted, caller_of(lease)); !applied)
      tell(true, lease, "could not be set again: " + applied.error().message);
    else tell(false, lease, "set again");
  }
}

void LeaseKeeper::work_off() {
  for (;;) {
    std::function<void()> next;
    {
      const std::lock_guard lock(mutex_);
      if (work_.empty() || stopping_) return;
      next = std::move(work_.front());
      work_.pop_front();
    }
    next();
  }
}

void LeaseKeeper::look_at_holders(const std::vector<std::string>& ended) {
  const std::uint64_t now_ns = steady_now_ns();
  for (const std::string& id : ended) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = leases_.find(id);
      if (found != leases_.end() && found->second.lease.session) {
        found->second.ends_at_ns = now_ns + ns_of(options_.grace);
        continue;
      }
    }
    (void)put_back(id, "its holder has ended", false);
  }
  for (const Lease& lease : list()) {
    bool again = false, over = false;
    {
      const std::lock_guard lock(mutex_);
      const auto found = leases_.find(lease.id);
      if (found == leases_.end()) continue;
      again = found->second.lease.ending && found->second.retry_at_ns <= now_ns;
      over = found->second.ends_at_ns != 0 && found->second.ends_at_ns <= now_ns;
    }
    if (again) (void)put_back(lease.id, "", false);
    else if (lease.ending) continue;
    else if (over) (void)put_back(lease.id, "its process has ended", false);
    else if (lease.ttl_s != 0 && lease.ends_at_s <= options_.now_s())
      (void)put_back(lease.id, "its time is over", false);
  }
}

}  // namespace headgate::power
