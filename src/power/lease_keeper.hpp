// Keeps leases: saves values before the first write, notices the end of holders, and restores the values. Thread-safe;
// works on a separate thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "power/lease.hpp"
#include "power/settings_io.hpp"

namespace headgate::power {

// An event in the life of a lease, for log and events.
struct LeaseNews {
  bool trouble = false;
  std::string text;  // "lease 3fa0 of uid 1000: its holder 4711 has ended; put back: ..."
  std::uint32_t owner_uid = 0;
};

// What a lease sets, and for how long.
struct LeaseTerms {
  SettingsByGpu wanted;
  std::uint32_t holder_pid = 0, ttl_s = 0;  // at least one of them
};

// A pending write of a zeusd client.
struct SessionWrite {
  std::uint32_t holder_pid = 0, owner_uid = 0;
  std::vector<std::string> uuids;
  Command command;
};

[[nodiscard]] std::unexpected<Error> no_lease(const std::string& id);
// Returns the caller of the keeper's own commands for a lease.
[[nodiscard]] Caller caller_of(const Lease& lease);

class LeaseKeeper {
 public:
  struct Options {
    std::string file;                            // absolute; its directory must exist
    std::string proc = "/proc";                  // see identity::read_process()
    std::function<std::int64_t()> now_s;         // seconds since 1970
    std::function<void(const LeaseNews&)> tell;  // called on the keeper's thread
    std::chrono::milliseconds check{5000};       // interval for checking that the GPUs have the settings
    bool reapply = false;                        // if a GPU lost settings, set them again; otherwise only report it
    std::chrono::milliseconds retry{1000};       // for values that could not be restored
    std::chrono::milliseconds patience{4'500};   // how long to wait for a GPU's answer
    std::chrono::milliseconds grace{2'000};      // from the end of a session's process to the end of the session
  };
  // `queues` must outlive it. start() reads the file: it adopts leases with a living holder and sets them again, and
  // puts back the values of all others.
  LeaseKeeper(ControlQueues& queues, Options options);
  ~LeaseKeeper();  // without stop(): as if the daemon were killed
  LeaseKeeper(const LeaseKeeper&) = delete;

  // Errors: those of reading the file; then nothing is changed.
  [[nodiscard]] Result<void> start();

  // `done` is called once, on the keeper's thread. Errors: not_found (a GPU); conflict (another lease has a control,
  // with its holder); failed (the holder has ended, a value is unreadable, or the file cannot be written; then nothing
  // was set); and those of the GPU library, after everything was restored.
  void create(LeaseTerms terms, std::uint32_t owner_uid, std::function<void(Result<Lease>)> done);
  // Restores the values. Errors: not_found; failed if some could not be restored, which is retried.
  void end(const std::string& id, std::function<void(Result<void>)> done);
  // Ends the lease but keeps its settings. `done`: see create(). Errors: not_found, and those of writing the file.
  void keep(const std::string& id, std::function<void(Result<void>)> done);
  // Turns off a GPU's persistence mode ("all": every GPU's) for this time, so that it can be reset. Then restores all
  // its present settings, whatever happened, and applies its leases again. `done`: see create(). Errors: not_found, and
  // those of reading, saving and setting.
  void give_up_persistence(const std::string& gpu, std::uint32_t seconds, std::function<void(Result<void>)> done);
  // Sets the site's own settings, which GPUs have outside leases. Applies them now; leases restore to them. `done`: see
  // create(). Errors: those of saving and setting; whatever could be set is set.
  void set_site(SettingsByGpu site, std::function<void(Result<void>)> done);
  // Returns true if the write may start at once, because a session of the process has saved all that it changes.
  [[nodiscard]] bool covers(const SessionWrite& write) const;
  // Saves what the write changes in a session of its process. `done`: see create(). Errors, after which the write must
  // not start: conflict (another lease has the control), failed (the process has ended, or a value cannot be read or
  // saved).
  void begin_session_write(SessionWrite write, std::function<void(Result<void>)> done);
  // Restarts the TTL of a lease from now. Errors: not_found, usage (it has no TTL).
  [[nodiscard]] Result<Lease> prolong(const std::string& id);

  [[nodiscard]] std::vector<Lease> list() const;
  [[nodiscard]] std::optional<Lease> find(const std::string& id) const;
  // Returns the lease that has a control of this GPU that the command writes.
  [[nodiscard]] std::optional<Lease> holder_of(const std::string& uuid, const Command& command) const;

  // Ends the daemon: restores all values; leases of living holders stay in the file for the next start. Returns false
  // if a GPU does not answer within `patience`.
  [[nodiscard]] bool stop(std::chrono::nanoseconds patience);

 private:
  struct Held {
    Lease lease;
    UniqueFd pidfd;                 // if the holder is a process
    std::uint64_t retry_at_ns = 0;  // if it is ending
    std::uint64_t ends_at_ns = 0;   // for a session, once its process has ended
    std::string drift;              // last reported; empty: the GPUs have its settings
  };
  struct Drift {
    std::string what;       // the values that GPUs have and the lease does not; empty: none
    bool reloaded = false;  // the driver was reloaded or a GPU reset since the last call
  };

  void run();
  void work_off();
  void do_later(std::function<void()> work);
  int next_wait_ms() const;
  void check_settings();
  Drift drift_of(const Lease& lease);
  void look_at_holders(const std::vector<std::string>& ended);
  void wake() const;

  Result<Lease> make(const LeaseTerms& terms, std::uint32_t owner_uid);
  Result<void> pause(const std::string& gpu, std::uint32_t seconds);
  Result<void> forget(const std::string& id);
  Result<void> make_site(const SettingsByGpu& site);
  Result<void> save_before(const SessionWrite& write);
  Result<UniqueFd> hold_process(std::uint32_t pid, Lease& lease) const;
  void apply_again(const SettingsByGpu& gpus, const std::string& but);
  [[nodiscard]] Result<void> check_conflicts(const Lease& lease) const;
  Result<void> record(const Lease& lease, UniqueFd pidfd);
  Result<void> put_back(const std::string& id, const std::string& why, bool keep);
  void adopt(Lease lease);
  // Called without `mutex_`, because a slow disk must not delay callers that look up a lease's holder.
  [[nodiscard]] Result<void> save();
  // Saves; if that fails, undoes the change under the lock.
  [[nodiscard]] Result<void> save_or(const std::function<void()>& undo);
  void tell(bool trouble, const Lease& lease, const std::string& text) const;

  SettingsIo io_;
  const Options options_;
  UniqueFd wake_;
  std::mutex file_mutex_;     // held while writing the file; locked before `mutex_`
  mutable std::mutex mutex_;  // guards everything below
  std::map<std::string, Held> leases_;
  std::deque<std::function<void()>> work_;
  std::uint64_t next_check_ns_ = 0;
  std::map<std::uint32_t, std::uint64_t> energy_mj_;  // by GPU, at the last drift_of(); for the keeper's thread only
  bool stopping_ = false, stopped_ = false;
  std::condition_variable stopped_changed_;
  std::thread thread_;
};

}  // namespace headgate::power
