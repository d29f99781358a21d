#include "observe/observer.hpp"

#include <time.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/now.hpp"
#include "base/saturating_math.hpp"
#include "base/units.hpp"
#include "observe/audit_text.hpp"

namespace headgate::observe {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// If the driver does not answer, a caller that wants a snapshot gets the last one after this time.
constexpr milliseconds kLookPatience{1000};
constexpr std::uint64_t kOldNs = 3'000'000'000;  // an older snapshot shown for lack of a newer says so

// Removes all that the driver says of processes: 0 would be a figure, and be believed.
void forget_processes(DriverMemory& memory) {
  memory.processes.clear();
  for (auto& [uuid, card] : memory.cards) {
    card.lists_processes = false;
    card.unattributed_bytes.reset();
  }
}

}  // namespace

Observer::Observer(ObserverSources sources, AuditRules rules, EventLog& events)
    : sources_(std::move(sources)),
      explainer_(sources_.explain),
      audit_([&] {
        rules.explain = [this](std::uint32_t pid) { return explainer_.of(pid); };
        return std::move(rules);
      }()),
      events_(events),
      fence_(sources_.fence_notes, events) {}

Observer::~Observer() { stop(); }

Result<void> Observer::start() {
  {
    const std::scoped_lock lock(looking_);
    nvml_.emplace(TRY(nvml::Library::open(sources_.nvml_library)));
    xid_watch_.emplace(*nvml_);
    TRY(read_driver(*nvml_, 0));
    look_locked();
  }
  thread_ = std::thread([this] {
    loop();
    const std::scoped_lock lock(state_);
    ended_ = true;
    wake_.notify_all();
  });
  return {};
}

bool Observer::stops_within(std::chrono::seconds patience) {
  const auto until = steady_clock::now() + patience;
  {
    std::unique_lock lock(state_);
    stopping_ = true;
    wake_.notify_all();
    if (thread_.joinable() && !wake_.wait_until(lock, until, [this] { return ended_; })) return false;
  }
  // Another thread's look may be the one that the driver does not answer.
  const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
  return std::unique_lock(looking_, std::max(left, milliseconds(0))).owns_lock();
}

void Observer::stop() {
  stops_within({});
  if (thread_.joinable()) thread_.join();
}

NodeSnapshot Observer::latest() const {
  const std::scoped_lock lock(state_);
  return latest_;
}

NodeSnapshot Observer::look() {
  const std::unique_lock lock(looking_, kLookPatience);
  if (lock) return look_locked();
  NodeSnapshot last = latest();
  if (steady_now_ns() - last->taken_ns < kOldNs) return last;
  auto old = std::make_shared<snapshot::Snapshot>(*last);
  old->node.nvml_released = true;
  return old;
}

// Not under looking_: a look holds that while it waits for the loop's thread, which may be the caller's.
void Observer::set_exempt(std::vector<std::string> programs) {
  const std::scoped_lock lock(state_);
  exempt_wanted_ = std::move(programs);
}

bool Observer::release_driver(std::chrono::seconds time) {
  const std::unique_lock lock(looking_, kLookPatience);
  if (!lock) return false;
  close_driver();
  released_until_ns_ = steady_now_ns() + static_cast<std::uint64_t>(nanoseconds(time).count());
  return true;
}

nanoseconds Observer::driver_silence() const {
  return nanoseconds(saturating_sub(steady_now_ns(), std::max(driver_answered_ns_.load(), released_until_ns_.load())));
}

bool Observer::open_driver() {
  if (nvml_) return true;
  if (steady_now_ns() < released_until_ns_) return false;
  auto opened = nvml::Library::open(sources_.nvml_library);
  if (!opened) return false;
  nvml_.emplace(std::move(*opened));
  xid_watch_.emplace(*nvml_);
  return true;
}

void Observer::close_driver() {
  xid_watch_.reset();
  if (nvml_) sm_activity_.forget(*nvml_);
  nvml_.reset();
}

void Observer::take_xids() {
  for (const nvml::Xid& seen : xid_watch_->take()) {
    auto& counts = xids_[seen.uuid];
    auto known = std::ranges::find(counts, seen.xid, &snapshot::XidCount::xid);
    if (known == counts.end()) known = counts.insert(counts.end(), {seen.xid, 0});
    ++known->count;
    events_.add({.kind = "gpu.xid",
                 .severity = "error",
                 .uuid = seen.uuid,
                 .text = gpu_text(last_driver_.gpus, seen.uuid) + " reports XID " + std::to_string(seen.xid)});
  }
  for (auto& gpu : last_driver_.gpus) {
    if (const auto counts = xids_.find(gpu.uuid); counts != xids_.end()) gpu.xids = counts->second;
  }
}

std::vector<nvml::Ended> Observer::take_ended() {
  std::vector<nvml::Ended> ended;
  const nvml::Library& nvml = *nvml_;
  for (const auto& gpu : last_driver_.gpus) {
    abi::nvmlDevice_t device = nullptr;
    if (gpu.uuid.empty() || nvml->nvmlDeviceGetHandleByIndex_v2(gpu.index, &device) != abi::NVML_SUCCESS) continue;
    std::set<std::uint32_t> running;
    for (const auto& process : last_driver_.processes) {
      if (process.uuid == gpu.uuid) running.insert(process.pid);
    }
    auto here = accounting_.look(nvml, device, gpu.uuid, running);
    ended.insert(ended.end(), here.begin(), here.end());
  }
  return ended;
}

void Observer::tell_ended(const std::vector<nvml::Ended>& ended, const snapshot::Snapshot* before) {
  for (const nvml::Ended& process : ended) {
    if (audit_.exempts(process.pid)) continue;
    std::string share, command;
    std::uint32_t uid = 0;
    std::optional<std::uint32_t> owner_uid;
    if (before != nullptr) {
      const auto seen = std::ranges::find(before->processes, process.pid, &snapshot::Process::pid);
      if (seen != before->processes.end()) share = seen->share, command = seen->command, uid = seen->uid;
      owner_uid = owner_of(*before, share);
    }
    if (share.empty() && sources_.share_of_ended) {
      const FormerShare former = sources_.share_of_ended(process.pid);
      share = former.name, owner_uid = former.owner_uid;
    }
    const std::string who = "process " + std::to_string(process.pid) + (command.empty() ? "" : " (" + command + ")");
    const std::string did =
        " had at most " + bytes_text(process.peak_bytes) + " on " + gpu_text(last_driver_.gpus, process.uuid) +
        " and kept it " + format_percent(process.busy_ratio) + " busy for " + std::to_string(process.lived_ms) + " ms";
    const bool outside = share.empty();
    events_.add(
        {.kind = outside ? event_kind(FindingKind::outside) : "process.accounted",
         .severity = outside ? "warn" : "info",
         .share = share,
         .uuid = process.uuid,
         .pid = process.pid,
         .uid = uid,
         .owner_uid = owner_uid,
         .text = who + (outside ? "" : " of share " + share) + did +
                 (outside ? ", and was in no share that this daemon has seen; it has ended" : "; it has ended")});
  }
}

NodeSnapshot Observer::look_locked() {
  JoinInput input;
  input.node = sources_.node;
  bool answers = false;
  std::vector<nvml::Ended> ended;
  if (open_driver()) {
    if (sources_.before_reading) sources_.before_reading();
    const snapshot::Snapshot* since = recent_.second_ago(steady_now_ns());
    if (auto driver = read_driver(*nvml_, since == nullptr ? 0 : since->taken_unix_ns / 1000)) {
      if (sources_.foreign_pids) forget_processes(*driver);
      if (sources_.after_reading) sources_.after_reading(*driver);
      traffic_.measure(*nvml_, driver->gpus, steady_clock::now());
      traffic_.fill(driver->gpus);
      sm_activity_.measure(*nvml_, driver->gpus, steady_clock::now());
      last_driver_ = std::move(*driver);
      driver_answered_ns_ = steady_now_ns();
      answers = true;
      const auto lost_and_found = lost_.look(last_driver_.gpus);
      for (const auto& event : lost_and_found) events_.add(event);
      take_xids();
      // A GPU that did not answer when the watch began is not in it.
      if (std::ranges::count(lost_and_found, "gpu.found", &snapshot::Event::kind) > 0) xid_watch_.emplace(*nvml_);
      if (!sources_.foreign_pids) ended = take_ended();
    } else {
      close_driver();  // the driver has gone: it is opened again at the next look
    }
  }
  if (!answers) last_driver_.processes.clear();
  input.driver = last_driver_;
  input.node.nvml_released = !answers;
  input.taken_ns = steady_now_ns();
  input.taken_unix_ns = unix_now_ns();
  if (sources_.add_ledgers) sources_.add_ledgers(input);
  // Looking for cgroups costs a file of /proc for each process.
  if (answers && sources_.fence_targets && DriverFence::may_offer(*nvml_)) {
    fences_ = fence_.hold(*nvml_, last_driver_.gpus, sources_.fence_targets(input), input.ledgers);
    can_fence_ = fence_.is_offered();
  }
  input.fences = fences_;
  auto snapshot = std::make_shared<snapshot::Snapshot>(join(input, recent_));
  if (sources_.finish) sources_.finish(*snapshot);
  {
    const std::scoped_lock lock(state_);
    if (exempt_wanted_) audit_.set_exempt(std::move(*exempt_wanted_));
    exempt_wanted_.reset();
  }
  tell_ended(ended, recent_.last());
  for (const auto& event : unmeasured_.look(snapshot->shares)) events_.add(event);
  for (const auto& event : fence_check_.look(*snapshot)) events_.add(event);
  for (const Finding& finding : audit_.look(*snapshot, input.facts, compute_books(input))) {
    using Update = Finding::Update;
    if (finding.update != Update::proven)
      events_.add({.kind = finding.update == Update::explained ? kExplainedEvent : event_kind(finding.kind),
                   .severity = "warn",
                   .share = finding.share,
                   .uuid = finding.uuid,
                   .pid = finding.pid,
                   .uid = finding.uid,
                   .owner_uid = finding.owner_uid,
                   .text = finding.text});
    if (sources_.act && finding.update != Update::explained) sources_.act(finding);
  }
  explainer_.keep_only(audit_.suspects());
  recent_.add(snapshot);
  const std::scoped_lock lock(state_);
  latest_ = std::move(snapshot);
  return latest_;
}

void Observer::ask_for(bool& wanted) {
  {
    const std::scoped_lock lock(state_);
    wanted = true;
  }
  wake_.notify_all();
}

void Observer::read_memory_now() {
  const std::scoped_lock lock(looking_);
  if (!open_driver()) return;
  if (sources_.before_reading) sources_.before_reading();
  auto memory = read_memory(*nvml_);
  if (!memory || !sources_.after_reading) return;
  if (sources_.foreign_pids) forget_processes(*memory);
  sources_.after_reading(*memory);
}

void Observer::loop() {
  steady_clock::time_point looked = steady_clock::now(), rested = looked;
  std::unique_lock lock(state_);
  while (!stopping_) {
    constexpr milliseconds kPeriod{1000}, kBetweenLooks{100};
    const auto next_look = looked + (look_wanted_ ? kBetweenLooks : kPeriod);
    const auto until = memory_wanted_ ? std::min(next_look, rested) : next_look;
    wake_.wait_until(lock, until, [&, memory = memory_wanted_, look = look_wanted_] {
      return stopping_ || memory_wanted_ != memory || look_wanted_ != look;
    });
    if (stopping_) return;
    const auto now = steady_clock::now();
    if (now >= next_look) {
      memory_wanted_ = look_wanted_ = false;
      lock.unlock();
      look();
      looked = steady_clock::now();
    } else if (memory_wanted_ && now >= rested) {
      memory_wanted_ = false;
      lock.unlock();
      const auto before = thread_time();
      read_memory_now();
      // A driver with costly answers is asked less often; limiters give up waiting after kNodePatienceNs.
      constexpr nanoseconds kMinRest = milliseconds(2), kMaxRest = milliseconds(100);
      rested = steady_clock::now() + std::clamp(19 * (thread_time() - before), kMinRest, kMaxRest);
    } else {
      continue;
    }
    lock.lock();
  }
}

}  // namespace headgate::observe
