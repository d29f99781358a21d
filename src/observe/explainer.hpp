// Finds explanations of findings on a separate thread. The answer reads files of the examined process, which can make
// that slow or, with its own file system, endless. No snapshot may wait for it, nor other findings for ever.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace headgate::observe {

class Explainer {
 public:
  // A thread that takes longer is given up, and another goes on; with this many given up and not back, none does.
  static constexpr std::chrono::milliseconds kPatience{5'000};
  static constexpr std::size_t kMaxGivenUp = 4;

  // Processor time for all processes together: otherwise a user that starts new ones without end would keep a core
  // busy.
  struct Spending {
    double of_a_core;
    std::chrono::nanoseconds ahead;  // may be spent at once, and is saved up again
  };
  static constexpr Spending kSpending{0.02, std::chrono::seconds(4)};

  // `explain` returns the explanation for a process, or an empty text. It is called on the thread, for one process at a
  // time. Threads that were abandoned keep it alive.
  explicit Explainer(std::function<std::string(std::uint32_t pid)> explain,
                     std::chrono::milliseconds patience = kPatience, Spending spending = kSpending);
  // Waits for the thread only as long as it has time left.
  ~Explainer();
  Explainer(const Explainer&) = delete;

  // Returns at once what is known by now; the first call for a process starts the work.
  [[nodiscard]] std::optional<std::string> of(std::uint32_t pid);
  // Forgets all other processes: their pids may soon be reused.
  void keep_only(const std::set<std::uint32_t>& pids);

 private:
  using Clock = std::chrono::steady_clock;
  struct Asked {
    std::uint64_t turn = 0;  // processes are answered in this order
    std::optional<std::string> answer = {};
  };
  struct Doing {
    std::uint32_t pid;
    std::uint64_t turn;
    Clock::time_point begun;
  };
  // Shared with the threads: one that is given up outlives us.
  struct Work {
    std::function<std::string(std::uint32_t)> explain;
    Spending spending;
    std::mutex mutex;
    std::condition_variable wake, ended;
    std::map<std::uint32_t, Asked> asked;  // by pid
    std::uint64_t turns = 0;
    std::uint64_t thread = 0;  // number of the current thread
    bool working = false;      // there is a current thread
    std::optional<Doing> doing;
    std::size_t given_up = 0;  // and not back yet
    bool stopping = false;
    Clock::time_point paid_at{};  // when what was spent will have been saved up again

    void spend(std::chrono::nanoseconds used);
    [[nodiscard]] Clock::time_point may_go_on() const;
    void answer(const Doing& what, std::string text);
  };
  static void run(const std::shared_ptr<Work>& work, std::uint64_t thread);
  void see_to_a_thread();

  const std::chrono::milliseconds patience_;
  const std::shared_ptr<Work> work_;
};

}  // namespace headgate::observe
