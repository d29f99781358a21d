#include "cli/top/watcher.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace headgate::cli {
namespace {

constexpr auto kFirstInterval = std::chrono::milliseconds(100);

}  // namespace

Watcher::Watcher(std::unique_ptr<SnapshotSource> source, std::chrono::milliseconds interval)
    : source_(std::move(source)), news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), interval_(interval) {
  if (!news_) std::abort();  // out of descriptors at startup
  thread_ = std::thread([this] { run(); });
}

Watcher::~Watcher() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::optional<Look> Watcher::take() {
  // Clear before taking: a snapshot that arrives in between signals again.
  std::uint64_t count = 0;
  (void)!::read(news_.get(), &count, sizeof count);
  const std::scoped_lock lock(mutex_);
  return std::exchange(newest_, std::nullopt);
}

void Watcher::set_interval(std::chrono::milliseconds interval) {
  {
    const std::scoped_lock lock(mutex_);
    if (interval_ == interval) return;
    interval_ = interval;
  }
  wake_.notify_all();
}

Look Watcher::look() {
  Look look{.snapshot = source_->look(), .events = {}, .remark = source_->remark()};
  if (!look.snapshot) return look;
  // After a restart, the daemon also returns events of its former run. It continues the former sequence numbers, or
  // starts over if it lost them.
  const bool anew =
      std::exchange(daemon_started_, look.snapshot->node.started_unix_ns) != look.snapshot->node.started_unix_ns;
  if (auto events = source_->events_after(anew ? 0 : last_event_.sequence)) {
    look.events = std::move(*events);
    if (anew)
      std::erase_if(look.events, [this](const snapshot::Event& event) {
        return event.sequence <= last_event_.sequence && event.unix_ns <= last_event_.unix_ns;
      });
    if (!look.events.empty()) last_event_ = look.events.back();
  } else {
    look.remark = events.error().message;
  }
  return look;
}

void Watcher::hand_over(Look look) {
  const std::scoped_lock lock(mutex_);
  if (newest_) {
    std::ranges::move(look.events, std::back_inserter(newest_->events));
    look.events = std::move(newest_->events);
  }
  newest_ = std::move(look);
  const std::uint64_t one = 1;
  (void)!::write(news_.get(), &one, sizeof one);
}

void Watcher::run() {
  for (bool first = true;; first = false) {
    hand_over(look());
    const auto looked = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    for (;;) {
      // Recomputed each time, because the interval may change while we wait.
      const auto due = looked + (first ? std::min(interval_, kFirstInterval) : interval_);
      if (stopping_ || std::chrono::steady_clock::now() >= due) break;
      wake_.wait_until(lock, due);
    }
    if (stopping_) return;
  }
}

}  // namespace headgate::cli
