#include "observe/observer.hpp"

#include <algorithm>
#include <utility>

namespace headgate::observe {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

template <typename Clock>
std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
}

}  // namespace

Observer::Observer(ObserverSources sources, AuditRules rules, EventLog& events)
    : sources_(std::move(sources)), audit_(std::move(rules)), events_(events) {}

Observer::~Observer() { stop(); }

Result<void> Observer::start() {
  {
    const std::scoped_lock lock(looking_);
    auto opened = nvml::Library::open(sources_.nvml_library);
    if (!opened) return std::unexpected(opened.error());
    nvml_.emplace(std::move(*opened));
    xid_watch_.emplace(*nvml_);
    if (auto driver = read_driver(*nvml_, 0); !driver) return std::unexpected(driver.error());
    look_locked();
  }
  thread_ = std::thread([this] { loop(); });
  return {};
}

void Observer::stop() {
  {
    const std::scoped_lock lock(state_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Picture Observer::latest() const {
  const std::scoped_lock lock(state_);
  return latest_;
}

Picture Observer::look() {
  const std::scoped_lock lock(looking_);
  return look_locked();
}

void Observer::set_period(std::chrono::milliseconds period) {
  {
    const std::scoped_lock lock(state_);
    period_ = period;
  }
  wake_.notify_all();
}

void Observer::release_driver(std::chrono::seconds time) {
  const std::scoped_lock lock(looking_);
  close_driver();
  released_until_ = steady_clock::now() + time;
}

bool Observer::open_driver() {
  if (nvml_) return true;
  if (steady_clock::now() < released_until_) return false;
  auto opened = nvml::Library::open(sources_.nvml_library);
  if (!opened) return false;
  nvml_.emplace(std::move(*opened));
  xid_watch_.emplace(*nvml_);
  return true;
}

void Observer::close_driver() {
  xid_watch_.reset();
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
                 .text = "XID " + std::to_string(seen.xid) + " on " + seen.uuid});
  }
  for (auto& gpu : last_driver_.gpus) {
    if (const auto counts = xids_.find(gpu.uuid); counts != xids_.end()) gpu.xids = counts->second;
  }
}

Picture Observer::look_locked() {
  JoinInput input;
  input.node = sources_.node;
  const bool open = open_driver();
  if (open) {
    if (auto driver = read_driver(*nvml_, samples_since_us_)) {
      last_driver_ = std::move(*driver);
      samples_since_us_ = now_ns<system_clock>() / 1000;
      take_xids();
    } else {
      close_driver();  // the driver went away under us: opened anew at the next look
    }
  } else {
    last_driver_.processes.clear();
  }
  input.driver = last_driver_;
  input.node.nvml_released = !open;
  input.taken_ns = now_ns<steady_clock>();
  input.taken_unix_ns = now_ns<system_clock>();
  if (sources_.add_ledgers) sources_.add_ledgers(input);
  const Picture before = latest();
  auto picture = std::make_shared<snapshot::Snapshot>(join(input, before.get()));
  if (sources_.finish) sources_.finish(*picture);
  for (const Finding& finding : audit_.look(*picture)) {
    events_.add({.kind = event_kind(finding.kind),
                 .severity = "warn",
                 .share = finding.share,
                 .uuid = finding.uuid,
                 .pid = finding.pid,
                 .text = finding.text});
    if (sources_.act) sources_.act(finding);
  }
  const std::scoped_lock lock(state_);
  latest_ = std::move(picture);
  return latest_;
}

void Observer::loop() {
  std::unique_lock lock(state_);
  while (!stopping_) {
    const auto period = period_;
    wake_.wait_for(lock, period, [&] { return stopping_ || period_ != period; });
    if (stopping_) return;
    lock.unlock();
    look();
    lock.lock();
  }
}

}  // namespace headgate::observe
