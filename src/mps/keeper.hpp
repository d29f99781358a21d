// Runs the manager on a thread of the daemon. It notices ends of tenants and control daemons through pidfds, faults
// through the servers' log, and everything else by periodic checks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "mps/manager.hpp"

namespace headgate::mps {

struct KeeperTimes {
  std::chrono::milliseconds look{10'000};    // between two checks
  std::chrono::milliseconds recover{200};    // while a group waits for its last client to end, and after news
  std::chrono::milliseconds after_news{20};  // from a server's log entry or a tenant's begin or end to a check
  int looks_after_news = 4;                  // checks after a server's log entry, `recover` apart
};

// Thread-safe.
class Keeper {
 public:
  explicit Keeper(Manager::Options options, KeeperTimes times = {});
  ~Keeper();  // without stop(): as if the daemon were killed; control daemons go on
  Keeper(const Keeper&) = delete;

  // Adopts what a former daemon left, then starts the thread. Errors: those of Manager::adopt().
  [[nodiscard]] Result<void> start();
  // As in Manager; settled by start().
  [[nodiscard]] bool has_multi_user() const { return manager_.has_multi_user(); }

  // As in Manager; `done` is called once, on the keeper's thread. Ended processes are released automatically.
  void acquire(Tenant tenant, std::function<void(Result<Variables>)> done);
  void take_off(pid_t client, std::function<void(Result<bool>)> done);
  // Blocks. False if it was no client. Errors: Manager's; busy if it has not happened within `patience`.
  [[nodiscard]] Result<bool> take_off(pid_t client, std::chrono::milliseconds patience);

  [[nodiscard]] std::vector<GroupView> groups() const;

  // Ends the thread. Control daemons with tenants go on, for the next daemon. Returns false if a call does not return.
  [[nodiscard]] bool stop(std::chrono::nanoseconds patience);

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void work_off();
  void do_later(std::function<void()> work);
  void watch_processes();
  void watch_logs();
  void expect_news();
  [[nodiscard]] bool read_logs() const;
  void show();
  [[nodiscard]] std::vector<ProcessMark> wait();

  const std::string base_, proc_;
  const KeeperTimes times_;
  Manager manager_;                                                     // used only by the thread, once it runs
  std::map<std::pair<std::uint32_t, std::uint32_t>, UniqueFd> pidfds_;  // of tenants and control daemons
  std::map<std::string, int> log_watches_;
  UniqueFd wake_, logs_;
  Clock::time_point next_look_;
  int looks_after_news_ = 0;  // left
  mutable std::mutex mutex_;  // guards everything below
  std::deque<std::function<void()>> work_;
  std::vector<GroupView> shown_;
  bool stopping_ = false, stopped_ = true;
  std::condition_variable stopped_changed_;
  std::thread thread_;
};

}  // namespace headgate::mps
