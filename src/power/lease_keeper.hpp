// Keeps leases: saves what they change before the first write, sees their holders end, and puts the former values back.
// Thread-safe; does its work on a separate thread.
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
#include "power/lease_drift.hpp"
#include "power/settings_io.hpp"

namespace headgate::power {

// Something that happened to a lease, for the log and events.
struct LeaseNews {
  bool trouble = false;
  std::string text;  // "lease 3fa0 of uid 1000: its holder 4711 has ended; put back: ..."
  std::uint32_t owner_uid = 0;
};

// What a lease is to set, and how long it is to hold.
struct LeaseTerms {
  SettingsByGpu wanted;
  std::uint32_t holder_pid = 0, ttl_s = 0;  // one of them at least
};

// A client of zeusd's wire that is about to write.
struct SessionWrite {
  std::uint32_t holder_pid = 0, owner_uid = 0;
  std::vector<std::string> uuids;
  Command command;
};

class LeaseKeeper {
 public:
  struct Options {
    std::string file;                            // absolute; its directory exists
    std::string proc = "/proc";                  // see identity::read_process()
    std::function<std::int64_t()> now_s;         // seconds since 1970
    std::function<void(const LeaseNews&)> tell;  // on the keeper's thread
    std::chrono::milliseconds check{5000};       // between two looks whether the GPUs still have the settings
    bool reapply = false;                        // makes settings again that a GPU has no longer; else it is only told
    std::chrono::milliseconds retry{1000};       // of values that could not be put back
    std::chrono::milliseconds patience{4'500};   // for an answer of a GPU
    std::chrono::milliseconds grace{2'000};      // between the end of a session's process and that of the session
  };
  // `queues` must outlive it. start() reads the file: leases whose holder lives are adopted and their settings made
  // again, those of others are put back.
  LeaseKeeper(ControlQueues& queues, Options options);
  ~LeaseKeeper();  // without stop(): as if the daemon were killed
  LeaseKeeper(const LeaseKeeper&) = delete;

  // Errors: of reading the file; then nothing of it is touched.
  [[nodiscard]] Result<void> start();

  // `done` is called once, on the keeper's thread. Errors: not_found (a GPU), conflict (a control that another lease
  // has, with its holder), failed (the holder has ended; a value cannot be read; the file cannot be written, and then
  // nothing was set), and those of the GPU library, where all is put back.
  void create(LeaseTerms terms, std::uint32_t owner_uid, std::function<void(Result<Lease>)> done);
  // Puts the values back. Errors: not_found; failed where some GPU's could not be put back yet: that is tried again.
  void end(const std::string& id, std::function<void(Result<void>)> done);
  // Ends the lease, and what it set stays. `done` as of create(). Errors: not_found, and those of writing the file.
  void keep(const std::string& id, std::function<void(Result<void>)> done);
  // Gives up the persistence mode of a GPU ("all": of all), so that it can be reset, for this time; then all of the
  // GPU's settings are put back as they are now, whatever became of the reset, and the leases on it are made again.
  // `done` as of create(). Errors: not_found, and those of reading, saving and setting.
  void give_up_persistence(const std::string& gpu, std::uint32_t seconds, std::function<void(Result<void>)> done);
  // What the GPUs are to have where no lease has them: the site's own settings. They are made now; what a lease has is
  // put back to them. `done` as of create(). Errors: of saving and setting; what could be set is set.
  void set_site(SettingsByGpu site, std::function<void(Result<void>)> done);
  // Whether the write can begin at once: a session of the process has saved all that it changes.
  [[nodiscard]] bool covers(const SessionWrite& write) const;
  // Saves what the write changes, in a session of its process. `done` as of create(). Errors: conflict (another lease
  // has the control), failed (the process has ended, or a value cannot be read or saved): then the write must not
  // begin.
  void begin_session_write(SessionWrite write, std::function<void(Result<void>)> done);
  // A lease with a ttl ends that much later from now. Errors: not_found, usage (it has no ttl).
  [[nodiscard]] Result<Lease> prolong(const std::string& id);

  [[nodiscard]] std::vector<Lease> list() const;
  [[nodiscard]] std::optional<Lease> find(const std::string& id) const;
  // The lease that has a control of this GPU that the command writes.
  [[nodiscard]] std::optional<Lease> holder_of(const std::string& uuid, const Command& command) const;

  // The daemon ends: all values are put back, and the leases of living holders stay in the file for the next start.
  // False: a GPU does not answer within `patience`.
  [[nodiscard]] bool stop(std::chrono::nanoseconds patience);

 private:
  struct Held {
    Lease lease;
    UniqueFd pidfd;                 // of a holder that is a process
    std::uint64_t retry_at_ns = 0;  // of one that is ending
    std::uint64_t ends_at_ns = 0;   // of a session whose process has ended
    std::string drift;              // told last; empty: the GPUs have its settings
  };

  void run();
  void work_off();
  void do_later(std::function<void()> work);
  int next_wait_ms() const;
  void check_settings();
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
  // Without `mutex_`: a slow disk must not delay callers that ask for the holder of a lease.
  [[nodiscard]] Result<void> save();
  void tell(bool trouble, const Lease& lease, const std::string& text) const;

  SettingsIo io_;
  const Options options_;
  UniqueFd wake_;
  std::mutex file_mutex_;     // held while the file is written; before `mutex_`
  mutable std::mutex mutex_;  // of everything below
  std::map<std::string, Held> leases_;
  std::deque<std::function<void()>> work_;
  std::uint64_t next_check_ns_ = 0;
  DriftWatch drift_;  // the keeper's thread alone
  bool stopping_ = false, stopped_ = false;
  std::condition_variable stopped_changed_;
  std::thread thread_;
};

}  // namespace headgate::power
