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
  std::chrono::milliseconds look{10'000};    // between two checks of all groups
  std::chrono::milliseconds unsettled{200};  // between two checks of a group that is unsettled
  std::chrono::milliseconds after_news{
      20};  // from a server's log entry or a tenant's begin or end to its group's check
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
  void read_logs();
  void ended(const ProcessMark& mark);
  void look_in(const GroupKey& key, std::chrono::milliseconds span);
  void look_where_due();
  void show();
  [[nodiscard]] std::vector<ProcessMark> wait();

  const std::string base_, proc_;
  const KeeperTimes times_;
  Manager manager_;                                                     // used only by the thread, once it runs
  std::map<std::pair<std::uint32_t, std::uint32_t>, UniqueFd> pidfds_;  // of tenants and control daemons
  struct LogWatch {
    int directory = -1, file = -1;  // of inotify; -1: there is none

    friend bool operator==(const LogWatch&, const LogWatch&) = default;
  };
  std::map<GroupKey, LogWatch> log_watches_;
  UniqueFd wake_, logs_;
  Clock::time_point next_look_;                   // at all groups
  std::map<GroupKey, Clock::time_point> sooner_;  // at one of them
  mutable std::mutex mutex_;                      // guards everything below
  std::deque<std::function<void()>> work_;
  std::vector<GroupView> shown_;
  bool stopping_ = false, stopped_ = true;
  std::condition_variable stopped_changed_;
  std::thread thread_;
};

}  // namespace headgate::mps
