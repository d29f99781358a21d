#include "base/nss_lookup.hpp"

#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace headgate {
namespace {

using Clock = std::chrono::steady_clock;

class Clerk {
 public:
  bool ask(std::function<void()> question, std::chrono::milliseconds patience) {
    // A forked child has no worker thread, so it asks directly; it delays no other thread.
    if (::getpid() != pid_) return question(), true;
    std::unique_lock lock(mutex_);
    if (questions_.size() >= kMost) return false;
    const std::uint64_t ticket = ++asked_;
    if (answered_ + 1 == ticket) began_ = Clock::now();  // it is the only one
    questions_.push_back(std::move(question));
    wake_.notify_one();
    return answer_.wait_until(lock, began_ + patience, [&] { return answered_ >= ticket; });
  }

  void start() {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread must not receive signals
    std::thread([this] { run(); }).detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

 private:
  static constexpr std::size_t kMost = 1000;

  void run() {
    for (std::unique_lock lock(mutex_);;) {
      wake_.wait(lock, [this] { return !questions_.empty(); });
      const auto question = std::move(questions_.front());
      questions_.pop_front();
      began_ = Clock::now();
      lock.unlock();
      question();
      lock.lock();
      ++answered_;
      answer_.notify_all();
    }
  }

  const pid_t pid_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable wake_, answer_;
  std::deque<std::function<void()>> questions_;
  std::uint64_t asked_ = 0, answered_ = 0;
  Clock::time_point began_;  // when the current question was started
};

}  // namespace

bool nss_lookup(std::function<void()> question, std::chrono::milliseconds patience) {
  // Never destroyed: a directory that does not answer may block the thread until the process ends.
  static Clerk& clerk = []() -> Clerk& {
    auto* const made = new Clerk;
    made->start();
    return *made;
  }();
  return clerk.ask(std::move(question), patience);
}

}  // namespace headgate
