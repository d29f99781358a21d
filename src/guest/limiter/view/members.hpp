// Who of NVML's processes is of our share, by the share's own books.
#pragma once

#include <cstdint>

namespace headgate::limiter {

// Whether a number that NVML names is a process of the share. Numbers count in our pid namespace only.
bool in_share(unsigned pid);

struct Member {
  unsigned pid = 0;         // 0: nobody of our pid namespace sits there
  std::uint64_t bytes = 0;  // what it holds by the books, with what was measured besides
};
Member member_at(std::uint32_t slot, std::uint32_t device_index);

// Moves the share's own entries to the front and cuts the count to them.
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
