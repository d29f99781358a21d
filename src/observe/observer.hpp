// The node's one reader of the driver: a thread that makes snapshots periodically and hands out the latest.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.hpp"
#include "nvml/accounting.hpp"
#include "nvml/library.hpp"
#include "nvml/xid.hpp"
#include "observe/audit.hpp"
#include "observe/driver_fence.hpp"
#include "observe/driver_samples.hpp"
#include "observe/event_log.hpp"
#include "observe/explainer.hpp"
#include "observe/join.hpp"
#include "observe/lost_gpus.hpp"
#include "observe/recent.hpp"
#include "observe/unmeasured.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// The share that an ended process was in.
struct FormerShare {
  std::string name;  // empty: no known one
  std::optional<std::uint32_t> owner_uid = {};
};

struct ObserverSources {
  std::string nvml_library;
  snapshot::Node node;  // name, version, reserve
  // The driver's pids are of another pid namespace: here they mean no process, or an unrelated one.
  bool foreign_pids = false;
  // Called around each reading of the driver, on the thread that looks.
  std::function<void()> before_reading;
  std::function<void(const DriverMemory&)> after_reading;
  // Fills ledgers, host_pids and facts; called on the observer's thread, after the driver was read into `input`.
  std::function<void(JoinInput& input)> add_ledgers;
  // Returns the cgroups whose memory the driver should hold too; called on the observer's thread. Empty: none.
  std::function<std::vector<FenceTarget>(const JoinInput& input)> fence_targets;
  std::string fence_notes;  // DriverFence's file
  // Adds what else a snapshot should carry (ttl, owners' names); called on the observer's thread.
  std::function<void(snapshot::Snapshot& snapshot)> finish;
  std::function<FormerShare(std::uint32_t pid)> share_of_ended;
  std::function<void(const Finding&)> act;  // on what the audit has newly found, and once more when that is proven
  // Explains how a process goes around its limits. Called on a separate thread: the process can make it slow.
  std::function<std::string(std::uint32_t pid)> explain;
};

// A mutex with a timed lock. std::timed_mutex waits in a way (pthread_mutex_clocklock) that gcc 12's ThreadSanitizer
// does not recognise as a lock.
class LookTurn {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [this] { return !taken_; });
    taken_ = true;
  }
  bool try_lock_for(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    if (!free_.wait_for(lock, patience, [this] { return !taken_; })) return false;
    return taken_ = true;
  }
  void unlock() {
    {
      const std::scoped_lock lock(mutex_);
      taken_ = false;
    }
    free_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
};

// Thread-safe.
class Observer {
 public:
  // Sets `rules.explain` to what `sources` explain.
  Observer(ObserverSources sources, AuditRules rules, EventLog& events);
  ~Observer();
  Observer(const Observer&) = delete;

  // Reads once and starts the thread. Errors: unreachable if no driver answers.
  Result<void> start();
  void stop();
  // As stop(), but returns false if a call into the driver keeps the thread for longer. Only the end of the process
  // ends it then.
  bool stops_within(std::chrono::seconds patience);

  [[nodiscard]] NodeSnapshot latest() const;  // never null after start()
  // Returns when the driver last answered (CLOCK_MONOTONIC), the time of snapshots' GPU figures. 0: it never has.
  [[nodiscard]] std::uint64_t driver_answered_ns() const { return driver_answered_ns_; }
  // Returns how long the driver has not answered, not counting the time of a release. DriverSilence reports it.
  [[nodiscard]] std::chrono::nanoseconds driver_silence() const;
  // Makes a snapshot now and returns it.
  NodeSnapshot look();
  // Has the memory of the GPUs read as soon as possible, on the observer's thread, and after_reading() called. However
  // often it is called, readings take at most a twentieth of a core.
  void read_memory_soon() { ask_for(memory_wanted_); }
  // Has a snapshot made as soon as possible, at most ten a second: a process has ended.
  void look_soon() { ask_for(look_wanted_); }
  // Sets AuditRules::exempt, from the next snapshot on. Does not block.
  void set_exempt(std::vector<std::string> programs);
  // Returns whether the driver can hold memory by cgroup: a new process should then be looked at soon.
  [[nodiscard]] bool can_fence() const { return can_fence_; }
  // Closes NVML for at most `time`, so that a GPU can be reset or its driver unloaded; snapshots keep what was known.
  // Returns false if a call into it hangs.
  [[nodiscard]] bool release_driver(std::chrono::seconds time);

 private:
  void ask_for(bool& wanted);
  void loop();
  void read_memory_now();
  NodeSnapshot look_locked();
  bool open_driver();
  void close_driver();
  void take_xids();
  std::vector<nvml::Ended> take_ended();
  void tell_ended(const std::vector<nvml::Ended>& ended, const snapshot::Snapshot* before);

  ObserverSources sources_;
  Explainer explainer_;
  Audit audit_;
  EventLog& events_;

  LookTurn looking_;  // one look at a time; guards all below it except what is atomic or guarded by state_
  std::optional<nvml::Library> nvml_;
  std::optional<nvml::XidWatch> xid_watch_;
  nvml::AccountingWatch accounting_;
  PcieTraffic traffic_;
  SmActivity sm_activity_;
  std::map<std::string, std::vector<snapshot::XidCount>> xids_;  // by GPU, since the start
  DriverSnapshot last_driver_;
  LostGpus lost_;
  Unmeasured unmeasured_;
  RecentSnapshots recent_;
  DriverFence fence_;
  FenceCheck fence_check_;
  std::vector<Fence> fences_;  // of the last look at which the driver answered
  std::atomic<bool> can_fence_ = false;

  std::atomic<std::uint64_t> driver_answered_ns_ = 0, released_until_ns_ = 0;  // CLOCK_MONOTONIC
  mutable std::mutex state_;                                                   // guards latest_ and the requests
  std::condition_variable wake_;
  NodeSnapshot latest_;
  std::optional<std::vector<std::string>> exempt_wanted_;
  bool stopping_ = false, ended_ = false, memory_wanted_ = false, look_wanted_ = false;
  std::thread thread_;
};

}  // namespace headgate::observe
