#include "observe/explainer.hpp"

#include <algorithm>
#include <utility>

namespace headgate::observe {

Explainer::Explainer(std::function<std::string(std::uint32_t pid)> explain) : explain_(std::move(explain)) {
  if (explain_) thread_ = std::thread([this] { work(); });
}

Explainer::~Explainer() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<std::string> Explainer::of(std::uint32_t pid) {
  if (!explain_) return "";
  const std::scoped_lock lock(mutex_);
  const auto [asked, fresh] = asked_.try_emplace(pid);
  if (fresh) {
    asked->second.turn = ++turns_;
    wake_.notify_all();
  }
  return asked->second.answer;
}

void Explainer::keep_only(const std::set<std::uint32_t>& pids) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(asked_, [&](const auto& entry) { return !pids.contains(entry.first); });
}

void Explainer::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next = std::ranges::min_element(
        asked_, {}, [](const auto& entry) { return std::pair(entry.second.answer.has_value(), entry.second.turn); });
    if (next == asked_.end() || next->second.answer) {
      wake_.wait(lock);
      continue;
    }
    const std::uint32_t pid = next->first;
    const std::uint64_t turn = next->second.turn;
    lock.unlock();
    std::string answer = explain_(pid);
    lock.lock();
    // It may have ended meanwhile, and another have its number.
    if (const auto asked = asked_.find(pid); asked != asked_.end() && asked->second.turn == turn)
      asked->second.answer = std::move(answer);
  }
}

}  // namespace headgate::observe
