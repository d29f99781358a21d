// Keeps GPUs in compute mode exclusive process while MPS control daemons run there, and decides when to try again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "mps/manager.hpp"

namespace headgate::daemon {

// Thread-safe.
class MpsModes {
 public:
  // Holds the mode for a control daemon; holding it twice is no error. `done` may be called on another thread, as long
  // as this object lives.
  using Hold = std::function<void(const std::string& uuid, std::uint32_t pid, std::function<void(Result<void>)> done)>;
  using Report = std::function<void(const mps::GroupKey& group, const Error& why)>;
  MpsModes(Hold hold, Report report) : hold_(std::move(hold)), report_(std::move(report)) {}

  // Call it once a second. Each control daemon counts for itself: its third failure in a row is reported, and then it
  // tries once a minute. The lease of one that has died may last a moment longer, so one failure says nothing.
  void keep(const std::vector<mps::GroupView>& groups);

 private:
  struct Failures {
    std::uint32_t daemon_pid = 0;
    int in_a_row = 0, skipped = 0;  // skipped: seconds since the last try
  };
  [[nodiscard]] bool is_due(const mps::GroupKey& group, std::uint32_t pid);
  void done(const mps::GroupKey& group, std::uint32_t pid, const Result<void>& held);

  const Hold hold_;
  const Report report_;
  std::mutex mutex_;
  std::map<mps::GroupKey, Failures> failures_;  // of groups that a control daemon serves
};

}  // namespace headgate::daemon
