#include "power/lease_keeper.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <random>
#include <utility>

#include "base/now.hpp"
#include "base/whole_number.hpp"
#include "identity/peer.hpp"
#include "identity/process.hpp"
#include "power/lease_file.hpp"

namespace headgate::power {
namespace {

constexpr int kMaxWaitMs = 60'000;

std::string new_id() {
  std::random_device random;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id;
  for (int i = 0; i < 12; ++i) id += kDigits[random() % kDigits.size()];
  return id;
}

std::string name_of(const Lease& lease) {
  return "lease " + lease.id + " of uid " + std::to_string(lease.owner_uid) +
         (lease.holder_pid != 0 ? " (process " + std::to_string(lease.holder_pid) + ")" : "");
}

}  // namespace

LeaseKeeper::LeaseKeeper(ControlQueues& queues, Options options)
    : queues_(queues), options_(std::move(options)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

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
  // A full counter is a wake-up too.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void LeaseKeeper::create(LeaseRequest request, std::uint32_t owner_uid, std::function<void(Result<Lease>)> done) {
  const std::lock_guard lock(mutex_);
  work_.push_back(
      [this, request = std::move(request), owner_uid, done = std::move(done)] { done(make(request, owner_uid)); });
  wake();
}

void LeaseKeeper::end(const std::string& id, std::function<void(Result<void>)> done) {
  const std::lock_guard lock(mutex_);
  work_.push_back([this, id, done = std::move(done)] { done(put_back(id, "it was given back", false)); });
  wake();
}

void LeaseKeeper::give_up_persistence(const std::string& gpu, std::uint32_t seconds,
                                      std::function<void(Result<void>)> done) {
  const std::lock_guard lock(mutex_);
  work_.push_back([this, gpu, seconds, done = std::move(done)] { done(pause(gpu, seconds)); });
  wake();
}

Result<Lease> LeaseKeeper::prolong(const std::string& id) {
  Lease lease;
  std::int64_t before_s = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = leases_.find(id);
    if (found == leases_.end() || found->second.lease.ending)
      return fail(ErrorCode::not_found, "there is no lease '" + id + "'", "GET /v1/power/leases lists them");
    if (found->second.lease.ttl_s == 0)
      return fail(ErrorCode::usage, "lease " + id + " has no ttl: it ends with its process", "nothing to do");
    before_s = std::exchange(found->second.lease.ends_at_s, options_.now_s() + found->second.lease.ttl_s);
    lease = found->second.lease;
  }
  if (auto saved = save(); !saved) {
    const std::lock_guard lock(mutex_);
    if (const auto found = leases_.find(id); found != leases_.end()) found->second.lease.ends_at_s = before_s;
    return std::unexpected(saved.error());
  }
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
    const bool has_gpu = std::ranges::find(held.lease.uuids, uuid) != held.lease.uuids.end();
    if (has_gpu && touches(held.lease.wanted, command)) return held.lease;
  }
  return std::nullopt;
}

bool LeaseKeeper::stop(std::chrono::nanoseconds patience) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back([this] {
      for (const Lease& lease : list()) (void)put_back(lease.id, "the daemon ends", !lease.ending);
      const std::lock_guard ending(mutex_);
      stopping_ = stopped_ = true;
      stopped_changed_.notify_all();
    });
  }
  wake();
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
        if (!held.pidfd || held.lease.ending) continue;
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

// Until a ttl ends or something is to be tried again.
int LeaseKeeper::next_wait_ms() const {
  std::int64_t wait_ms = kMaxWaitMs;
  for (const auto& [id, held] : leases_) {
    if (held.lease.ending) {
      const std::uint64_t now_ns = steady_now_ns();
      wait_ms = std::min<std::int64_t>(
          wait_ms,
          held.retry_at_ns <= now_ns ? 0 : static_cast<std::int64_t>((held.retry_at_ns - now_ns) / 1'000'000 + 1));
    } else if (held.lease.ttl_s != 0) {
      wait_ms = std::min(wait_ms, std::max<std::int64_t>(0, held.lease.ends_at_s - options_.now_s()) * 1000);
    }
  }
  const std::uint64_t now_ns = steady_now_ns();
  if (!leases_.empty())
    wait_ms = std::min<std::int64_t>(
        wait_ms, next_check_ns_ <= now_ns ? 0 : static_cast<std::int64_t>((next_check_ns_ - now_ns) / 1'000'000 + 1));
  return static_cast<int>(wait_ms);
}

// Another program may have set the GPU, and a driver that was reloaded has forgotten what it was told.
void LeaseKeeper::check_settings() {
  const std::uint64_t now_ns = steady_now_ns();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || now_ns < next_check_ns_) return;
    next_check_ns_ = now_ns + static_cast<std::uint64_t>(std::chrono::nanoseconds(options_.check).count());
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
    if (auto applied = apply(lease); !applied) tell(true, lease, "not made again: " + applied.error().message);
    else tell(false, lease, "made again");
  }
}

LeaseKeeper::Drift LeaseKeeper::drift_of(const Lease& lease) {
  Drift drift;
  for (const std::string& uuid : lease.uuids) {
    const auto gpu = index_of(uuid);
    const auto now = gpu ? read(*gpu, lease.wanted, lease) : fail(ErrorCode::not_found, "");
    if (!now) continue;
    // The counter begins again with the driver.
    if (const auto energy = queues_.gpu(*gpu).total_energy_mj()) {
      drift.reloaded = drift.reloaded || *energy < energy_mj_[*gpu];
      energy_mj_[*gpu] = *energy;
    }
    std::string has;
    if (now->power_limit_mw != lease.wanted.power_limit_mw)
      has = "power limit " + watts_text(*now->power_limit_mw) + ", not " + watts_text(*lease.wanted.power_limit_mw);
    if (now->persistence != lease.wanted.persistence)
      has += (has.empty() ? "" : ", ") + std::string("persistence mode ") + (*now->persistence ? "on" : "off");
    if (now->compute_mode != lease.wanted.compute_mode)
      has += (has.empty() ? "" : ", ") + std::string("compute mode ") + std::to_string(*now->compute_mode);
    if (has.empty()) continue;
    drift.what += (drift.what.empty() ? "" : "; ") + std::string("GPU ") + std::to_string(*gpu) + " has " + has;
  }
  return drift;
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
  for (const std::string& id : ended) (void)put_back(id, "its holder has ended", false);
  const std::uint64_t now_ns = steady_now_ns();
  for (const Lease& lease : list()) {
    bool again = false;
    {
      const std::lock_guard lock(mutex_);
      const auto found = leases_.find(lease.id);
      again = found != leases_.end() && found->second.lease.ending && found->second.retry_at_ns <= now_ns;
    }
    if (again) (void)put_back(lease.id, "", false);
    else if (!lease.ending && lease.ttl_s != 0 && lease.ends_at_s <= options_.now_s())
      (void)put_back(lease.id, "its time is over", false);
  }
}

std::optional<std::uint32_t> LeaseKeeper::index_of(const std::string& gpu) const {
  for (std::uint32_t index = 0; index < queues_.count(); ++index)
    if (queues_.gpu(index).identity().uuid == gpu) return index;
  const auto index = whole_number<std::uint32_t>(gpu);
  return index && *index < queues_.count() ? index : std::nullopt;
}

// One command through the GPU's queue, behind those that wait there.
Result<Reading> LeaseKeeper::command(std::uint32_t gpu, const Command& command, const Lease& lease) {
  const auto promise = std::make_shared<std::promise<Answers>>();
  const auto submitted =
      queues_.submit({.gpus = {gpu},
                      .command = command,
                      .caller = {.text = name_of(lease), .uid = lease.owner_uid, .quiet = true},
                      .arrived_ns = steady_now_ns(),
                      .answer = [promise](Answers answers) { promise->set_value(std::move(answers)); }});
  if (!submitted) return std::unexpected(submitted.error());
  return promise->get_future().get().at(gpu);
}

Result<Settings> LeaseKeeper::read(std::uint32_t gpu, const Settings& wanted, const Lease& lease) {
  Settings now;
  if (wanted.power_limit_mw)
    now.power_limit_mw =
        static_cast<std::uint32_t>(TRY(command(gpu, {.operation = Operation::get_power_limit}, lease)).value);
  if (wanted.persistence)
    now.persistence = TRY(command(gpu, {.operation = Operation::get_persistence_mode}, lease)).value != 0;
  if (wanted.compute_mode)
    now.compute_mode =
        static_cast<std::uint32_t>(TRY(command(gpu, {.operation = Operation::get_compute_mode}, lease)).value);
  // No driver tells which clocks are locked: the last that we set, else none.
  if (wanted.gpu_clocks) now.gpu_clocks = queues_.locked_clocks(gpu, Operation::set_gpu_locked_clocks);
  if (wanted.mem_clocks) now.mem_clocks = queues_.locked_clocks(gpu, Operation::set_mem_locked_clocks);
  return now;
}

Result<Lease> LeaseKeeper::draft(const LeaseRequest& request, std::uint32_t owner_uid, UniqueFd& pidfd) const {
  Lease lease;
  lease.id = new_id();
  lease.wanted = request.wanted;
  lease.owner_uid = owner_uid;
  lease.ttl_s = request.ttl_s;
  if (request.ttl_s != 0) lease.ends_at_s = options_.now_s() + request.ttl_s;
  for (const std::string& gpu : request.gpus) {
    const auto index = index_of(gpu);
    if (!index) return fail(ErrorCode::not_found, "there is no GPU '" + gpu + "'", "GET /v1/gpus lists them");
    const std::string& uuid = queues_.gpu(*index).identity().uuid;
    if (std::ranges::find(lease.uuids, uuid) == lease.uuids.end()) lease.uuids.push_back(uuid);
  }
  for (const auto& [id, held] : leases_) {
    const bool shared = std::ranges::any_of(lease.uuids, [&](const std::string& uuid) {
      return std::ranges::find(held.lease.uuids, uuid) != held.lease.uuids.end();
    });
    const auto control = shared ? common_control(held.lease.wanted, lease.wanted) : std::nullopt;
    if (control)
      return fail(ErrorCode::conflict, "the " + *control + " is held by " + name_of(held.lease),
                  "wait for its end, or DELETE /v1/power/leases/" + id);
  }
  if (request.holder_pid != 0) {
    const auto process = TRY(identity::read_process(options_.proc, request.holder_pid));
    lease.holder_pid = process.pid;
    lease.holder_start_time = process.start_time;
    pidfd = TRY(identity::pidfd_of(process, options_.proc));
  }
  return lease;
}

Result<Lease> LeaseKeeper::make(const LeaseRequest& request, std::uint32_t owner_uid) {
  UniqueFd pidfd;
  Lease lease;
  {
    const std::lock_guard lock(mutex_);
    lease = TRY(draft(request, owner_uid, pidfd));
  }
  for (const std::string& uuid : lease.uuids) lease.saved[uuid] = TRY(read(*index_of(uuid), lease.wanted, lease));
  if (auto recorded = record(lease, std::move(pidfd)); !recorded) return std::unexpected(recorded.error());
  if (auto applied = apply(lease); !applied) {
    (void)put_back(lease.id, "it could not be made", false);
    return std::unexpected(applied.error());
  }
  tell(false, lease, "begins: " + lease_json(lease));
  return lease;
}

// In the file before anything is written to a GPU.
Result<void> LeaseKeeper::record(const Lease& lease, UniqueFd pidfd) {
  {
    const std::lock_guard lock(mutex_);
    leases_[lease.id] = Held{.lease = lease, .pidfd = std::move(pidfd)};
  }
  auto saved = save();
  if (saved) return saved;
  const std::lock_guard lock(mutex_);
  leases_.erase(lease.id);
  return saved;
}

// As a lease of the daemon's: it survives a crash, and what cannot be put back while the GPU is gone is tried again.
Result<void> LeaseKeeper::pause(const std::string& gpu, std::uint32_t seconds) {
  Lease lease;
  lease.id = new_id();
  lease.wanted.persistence = false;
  lease.ttl_s = seconds;
  lease.ends_at_s = options_.now_s() + seconds;
  for (std::uint32_t index = 0; index < queues_.count(); ++index)
    if (gpu == "all" || index_of(gpu) == index) lease.uuids.push_back(queues_.gpu(index).identity().uuid);
  if (lease.uuids.empty())
    return fail(ErrorCode::not_found, "there is no GPU '" + gpu + "'", "GET /v1/gpus lists them");
  // A GPU that is reset forgets all of them. What a GPU does not have is not put back.
  for (const std::string& uuid : lease.uuids) {
    const std::uint32_t index = *index_of(uuid);
    Settings& saved = lease.saved[uuid];
    if (const auto limit = command(index, {.operation = Operation::get_power_limit}, lease))
      saved.power_limit_mw = static_cast<std::uint32_t>(limit->value);
    if (const auto mode = command(index, {.operation = Operation::get_compute_mode}, lease))
      saved.compute_mode = static_cast<std::uint32_t>(mode->value);
    saved.persistence = TRY(command(index, {.operation = Operation::get_persistence_mode}, lease)).value != 0;
    const ClockRange gpu_clocks = queues_.locked_clocks(index, Operation::set_gpu_locked_clocks);
    const ClockRange mem_clocks = queues_.locked_clocks(index, Operation::set_mem_locked_clocks);
    if (gpu_clocks.max_mhz != 0) saved.gpu_clocks = gpu_clocks;
    if (mem_clocks.max_mhz != 0) saved.mem_clocks = mem_clocks;
  }
  if (auto recorded = record(lease, {}); !recorded) return recorded;
  if (auto applied = apply(lease); !applied) {
    (void)put_back(lease.id, "persistence could not be given up", false);
    return applied;
  }
  tell(false, lease, "gives up the persistence mode for " + std::to_string(seconds) + " s, so that a GPU can be reset");
  return {};
}

void LeaseKeeper::apply_again(const std::vector<std::string>& uuids, const std::string& but) {
  for (const Lease& lease : list()) {
    const bool shared = std::ranges::any_of(
        lease.uuids, [&uuids](const std::string& uuid) { return std::ranges::find(uuids, uuid) != uuids.end(); });
    if (!shared || lease.ending || lease.id == but) continue;
    if (auto applied = apply(lease); !applied) tell(true, lease, "not made again: " + applied.error().message);
  }
}

// All GPUs, and what each says of the limit afterwards: some take a value and ignore it.
Result<void> LeaseKeeper::apply(const Lease& lease) {
  for (const std::string& uuid : lease.uuids) {
    const auto gpu = index_of(uuid);
    if (!gpu) return fail(ErrorCode::not_found, "GPU " + uuid + " is not there");
    for (const Command& one : commands_to_apply(lease.wanted)) TRY(command(*gpu, one, lease));
    const Settings now = TRY(read(*gpu, lease.wanted, lease));
    if (now != lease.wanted)
      return fail(ErrorCode::failed, "GPU " + std::to_string(*gpu) + " took the settings and has others",
                  "the log says what it has");
  }
  return {};
}

// `keep`: the lease stays in the file, for the next start.
Result<void> LeaseKeeper::put_back(const std::string& id, const std::string& why, bool keep) {
  Lease lease;
  {
    const std::lock_guard lock(mutex_);
    const auto found = leases_.find(id);
    if (found == leases_.end())
      return fail(ErrorCode::not_found, "there is no lease '" + id + "'", "GET /v1/power/leases lists them");
    if (!keep) found->second.lease.ending = true;
    lease = found->second.lease;
  }
  std::string trouble;
  std::map<std::string, Settings> left;
  for (const auto& [uuid, saved] : lease.saved) {
    const auto gpu = index_of(uuid);
    std::string failed = gpu ? "" : "GPU " + uuid + " is not there";
    // One value that cannot be put back keeps no other from it.
    for (const Command& one : commands_to_restore(saved)) {
      if (!gpu) break;
      if (const auto done = command(*gpu, one, lease); !done)
        failed += (failed.empty() ? "" : "; ") + done.error().message;
    }
    if (failed.empty()) continue;
    left[uuid] = saved;
    trouble += (trouble.empty() ? "" : "; ") + failed;
  }
  {
    const std::lock_guard lock(mutex_);
    Held& held = leases_[id];
    if (!keep && left.empty()) {
      leases_.erase(id);
    } else if (!keep) {
      held.lease.saved = left;
      held.retry_at_ns = steady_now_ns() + static_cast<std::uint64_t>(std::chrono::nanoseconds(options_.retry).count());
    }
  }
  if (auto saved = save(); !saved) trouble += (trouble.empty() ? "" : "; ") + saved.error().message;
  if (!why.empty())
    tell(!trouble.empty(), lease, "ends: " + why + (trouble.empty() ? "; its values are put back" : ""));
  if (trouble.empty()) {
    // What was put back may have been under another lease's settings: after a pause, of a GPU that was reset.
    if (!keep && lease.owner_uid == 0 && lease.holder_pid == 0) apply_again(lease.uuids, id);
    return {};
  }
  if (!why.empty()) tell(true, lease, "not put back, and tried again: " + trouble);
  return fail(ErrorCode::failed, "not all values are put back: " + trouble, "it is tried again each second");
}

// A lease of a former daemon.
void LeaseKeeper::adopt(Lease lease) {
  UniqueFd pidfd;
  bool lives = !lease.ending && (lease.ttl_s == 0 || lease.ends_at_s > options_.now_s());
  if (lives && lease.holder_pid != 0) {
    const auto process = identity::read_process(options_.proc, lease.holder_pid);
    lives = process && process->start_time == lease.holder_start_time && !process->ended;
    if (lives) {
      auto opened = identity::pidfd_of(*process, options_.proc);
      lives = opened.has_value();
      if (lives) pidfd = std::move(*opened);
    }
  }
  if (!lives) return (void)put_back(lease.id, "its holder ended while no daemon ran", false);
  {
    const std::lock_guard lock(mutex_);
    leases_[lease.id].pidfd = std::move(pidfd);
  }
  if (auto applied = apply(lease); !applied) return tell(true, lease, "adopted, but: " + applied.error().message);
  tell(false, lease, "adopted: its holder lives");
}

Result<void> LeaseKeeper::save() {
  const std::lock_guard file(file_mutex_);
  return save_leases(options_.file, list());
}

void LeaseKeeper::tell(bool trouble, const Lease& lease, const std::string& text) const {
  if (options_.tell)
    options_.tell({.trouble = trouble, .text = name_of(lease) + " " + text, .owner_uid = lease.owner_uid});
}

}  // namespace headgate::power
