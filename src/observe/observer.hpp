// The node's one reader of the driver: a thread that makes a snapshot every so often and hands it to whoever asks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.hpp"
#include "nvml/accounting.hpp"
#include "nvml/library.hpp"
#include "nvml/xid.hpp"
#include "observe/audit.hpp"
#include "observe/event_log.hpp"
#include "observe/explainer.hpp"
#include "observe/join.hpp"
#include "observe/lost_gpus.hpp"
#include "observe/pcie_traffic.hpp"
#include "observe/recent.hpp"
#include "observe/sm_activity.hpp"
#include "observe/unmeasured.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// In which a process was that has ended.
struct FormerShare {
  std::string name;  // empty: in none that is known
  std::optional<std::uint32_t> owner_uid = {};
};

struct ObserverSources {
  std::string nvml_library;
  snapshot::Node node;  // name, version, reserve
  // The driver's numbers of processes are another pid namespace's: here they are nobody's, or somebody's who has
  // nothing to do with it.
  bool foreign_pids = false;
  // Around each reading of the driver, on whichever thread looks.
  std::function<void()> before_reading;
  std::function<void(const DriverMemory&)> after_reading;
  // Fills ledgers, host_pids and facts; called on the observer's thread, after the driver was read into `input`.
  std::function<void(JoinInput& input)> add_ledgers;
  // What else a snapshot should carry (ttl, owners' names); called on the observer's thread.
  std::function<void(snapshot::Snapshot& snapshot)> finish;
  std::function<FormerShare(std::uint32_t pid)> share_of_ended;
  std::function<void(const Finding&)> act;  // on what the audit has newly found, and once more when that is proven
  // How a process goes around its limits. On a thread of its own: the process can make it take long.
  std::function<std::string(std::uint32_t pid)> explain;
};

// A mutex that is waited for only so long. std::timed_mutex would be one, but waits in a way (pthread_mutex_clocklock)
// that gcc 12's ThreadSanitizer takes for no lock.
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
  // `rules.explain` is set here, to what `sources` explain.
  Observer(ObserverSources sources, AuditRules rules, EventLog& events);
  ~Observer();
  Observer(const Observer&) = delete;

  // Reads once and starts the thread. Errors: unreachable, where no driver answers.
  Result<void> start();
  void stop();
  // The same without its thread's end, where a call into the driver keeps that for longer: false. Only the end of the
  // process ends it then.
  bool stops_within(std::chrono::seconds patience);

  [[nodiscard]] NodeSnapshot latest() const;  // never null after start()
  // When the driver last answered, CLOCK_MONOTONIC: what snapshots say of GPUs is of then. 0: it never has.
  [[nodiscard]] std::uint64_t driver_answered_ns() const { return driver_answered_ns_; }
  // For how long the driver has not answered; the time for which it was let go of does not count. DriverSilence tells
  // of it.
  [[nodiscard]] std::chrono::nanoseconds driver_silence() const;
  // Makes a snapshot now and returns it.
  NodeSnapshot look();
  // Has the memory of the GPUs read as soon as may be, on the observer's thread, and after_reading() told. However many
  // ask, and however often: readings take at most a twentieth of a core.
  void read_memory_soon();
  // Has a snapshot made as soon as may be, at most ten a second: somebody has ended.
  void look_soon();
  // AuditRules::exempt, from the next snapshot on. Waits for none.
  void set_exempt(std::vector<std::string> programs);
  // Closes NVML, so that a GPU can be reset or its driver unloaded, for at most `time`; snapshots keep what was known.
  // False: a call into it hangs.
  [[nodiscard]] bool release_driver(std::chrono::seconds time);

 private:
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

  LookTurn looking_;  // one look at a time; guards all below it but what is atomic or guarded by state_
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

  std::atomic<std::uint64_t> driver_answered_ns_ = 0, released_until_ns_ = 0;  // CLOCK_MONOTONIC
  mutable std::mutex state_;                                                   // guards latest_ and the wishes
  std::condition_variable wake_;
  NodeSnapshot latest_;
  std::optional<std::vector<std::string>> exempt_wanted_;
  bool stopping_ = false, ended_ = false, memory_wanted_ = false, look_wanted_ = false;
  std::thread thread_;
};

}  // namespace headgate::observe
