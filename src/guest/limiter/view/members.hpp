// Which of NVML's processes belong to our share, by the share's own record.
#pragma once

#include <cstdint>

namespace headgate::limiter {

// Returns whether a pid from NVML is a process of the share. Pids count in our pid namespace only.
bool in_share(unsigned pid);

struct Member {
  unsigned pid = 0;         // 0: no process of our pid namespace is there
  std::uint64_t bytes = 0;  // held in the ledger, plus the measured residual
};
Member member_at(std::uint32_t slot, std::uint32_t device_index);

// Moves the share's entries to the front and cuts the count to them.
template <typename Entry, typename Pid>
void keep_ours(Entry* entries, unsigned& count, Pid pid_of) {
  unsigned ours = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (!in_share(pid_of(entries[i]))) continue;
    if (ours != i) entries[ours] = entries[i];
    ++ours;
  }
  count = ours;
}

}  // namespace headgate::limiter
