// Asks what explains a finding on a thread of its own: the answer reads files of the process that is examined, which can make that
// take long, and no picture may wait for it. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

namespace headgate::observe {

class Explainer {
 public:
  // `explain`: what is to be said of a process; empty: nothing. Called on the thread, one process at a time.
  explicit Explainer(std::function<std::string(std::uint32_t pid)> explain);
  ~Explainer();
  Explainer(const Explainer&) = delete;

  // What is known by now, at once; the first to ask sets the thread to work.
  [[nodiscard]] std::optional<std::string> of(std::uint32_t pid);
  // Forgets all other processes: their numbers may soon be somebody else's.
  void keep_only(const std::set<std::uint32_t>& pids);

 private:
  struct Asked {
    std::uint64_t turn = 0;  // they are answered in turn
    std::optional<std::string> answer = {};
  };
  void work();

  const std::function<std::string(std::uint32_t)> explain_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::uint32_t, Asked> asked_;  // by pid
  std::uint64_t turns_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace headgate::observe
