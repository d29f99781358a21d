#include "observe/explainer.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "base/now.hpp"

namespace headgate::observe {

Explainer::Explainer(std::function<std::string(std::uint32_t pid)> explain, std::chrono::milliseconds patience,
                     Spending spending)
    : patience_(patience), work_(std::make_shared<Work>()) {
  work_->explain = std::move(explain);
  work_->spending = spending;
}

Explainer::~Explainer() {
  std::unique_lock lock(work_->mutex);
  work_->stopping = true;
  work_->wake.notify_all();
  const auto until = (work_->doing ? work_->doing->begun : Clock::now()) + patience_;
  work_->ended.wait_until(lock, until, [this] { return !work_->working; });
}

std::optional<std::string> Explainer::of(std::uint32_t pid) {
  if (!work_->explain) return "";
  const std::scoped_lock lock(work_->mutex);
  const auto [asked, fresh] = work_->asked.try_emplace(pid);
  if (fresh) asked->second.turn = ++work_->turns;
  see_to_a_thread();
  if (fresh) work_->wake.notify_all();
  return asked->second.answer;
}

void Explainer::keep_only(const std::set<std::uint32_t>& pids) {
  const std::scoped_lock lock(work_->mutex);
  std::erase_if(work_->asked, [&](const auto& entry) { return !pids.contains(entry.first); });
}

// Call it under the lock.
void Explainer::see_to_a_thread() {
  if (work_->doing && Clock::now() - work_->doing->begun > patience_) {
    work_->answer(*work_->doing, "its files took too long to read");
    work_->doing.reset();
    work_->working = false;
    ++work_->given_up;
  }
  if (work_->working || work_->given_up >= kMaxGivenUp) return;
  try {
    std::thread(run, work_, ++work_->thread).detach();
    work_->working = true;
  } catch (const std::system_error&) {  // no more threads for now: the next call tries again
  }
}

// The process may have ended meanwhile, and its pid been reused.
void Explainer::Work::answer(const Doing& what, std::string text) {
  if (const auto found = asked.find(what.pid); found != asked.end() && found->second.turn == what.turn)
    found->second.answer = std::move(text);
}

void Explainer::Work::spend(std::chrono::nanoseconds used) {
  const std::chrono::duration<double, std::nano> saved_up_in = used / spending.of_a_core;
  paid_at = std::max(paid_at, Clock::now()) + std::chrono::duration_cast<Clock::duration>(saved_up_in);
}

Explainer::Clock::time_point Explainer::Work::may_go_on() const {
  const std::chrono::duration<double, std::nano> ahead = spending.ahead / spending.of_a_core;
  return paid_at - std::chrono::duration_cast<Clock::duration>(ahead);
}

void Explainer::run(const std::shared_ptr<Work>& work, std::uint64_t thread) {
  std::unique_lock lock(work->mutex);
  while (!work->stopping) {
    const auto next = std::ranges::min_element(work->asked, {}, [](const auto& entry) {
      return std::pair(entry.second.answer.has_value(), entry.second.turn);
    });
    if (next == work->asked.end() || next->second.answer) {
      work->wake.wait(lock);
      continue;
    }
    if (const auto rested = work->may_go_on(); rested > Clock::now()) {
      work->wake.wait_until(lock, rested);
      continue;
    }
    const Doing doing{next->first, next->second.turn, Clock::now()};
    work->doing = doing;
    lock.unlock();
    const auto before = thread_time();
    std::string answer = work->explain(doing.pid);
    const auto used = thread_time() - before;
    lock.lock();
    work->spend(used);
    if (!work->doing || work->doing->turn != doing.turn || work->thread != thread) {
      --work->given_up;
      return;
    }
    work->doing.reset();
    work->answer(doing, std::move(answer));
  }
  work->working = false;
  work->ended.notify_all();
}

}  // namespace headgate::observe
