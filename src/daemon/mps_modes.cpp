#include "daemon/mps_modes.hpp"

#include <algorithm>

namespace headgate::daemon {
namespace {

constexpr int kReported = 3, kSkipped = 60;

}  // namespace

bool MpsModes::is_due(const mps::GroupKey& group, std::uint32_t pid) {
  const std::lock_guard lock(mutex_);
  Failures& failures = failures_[group];
  failures.daemon_pid = pid;
  if (failures.in_a_row >= kReported && ++failures.skipped < kSkipped) return false;
  failures.skipped = 0;
  return true;
}

void MpsModes::done(const mps::GroupKey& group, std::uint32_t pid, const Result<void>& held) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = failures_.find(group);
    if (found == failures_.end() || found->second.daemon_pid != pid) return;
    found->second.in_a_row = held ? 0 : found->second.in_a_row + 1;
    if (found->second.in_a_row != kReported) return;
  }
  report_(group, held.error());
}

void MpsModes::keep(const std::vector<mps::GroupView>& groups) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(failures_, [&groups](const auto& each) {
      return std::ranges::none_of(groups, [&each](const mps::GroupView& group) {
        return group.key == each.first && group.daemon_pid == each.second.daemon_pid;
      });
    });
  }
  for (const mps::GroupView& group : groups) {
    const std::uint32_t pid = group.daemon_pid;
    if (pid == 0 || !is_due(group.key, pid)) continue;
    hold_(group.key.uuid, pid, [this, key = group.key, pid](const Result<void>& held) { done(key, pid, held); });
  }
}

}  // namespace headgate::daemon
