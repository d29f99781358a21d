// The host's clocks: those of the initial time namespace, so that processes of any two namespaces can compare times.
//
// A time namespace (time_namespaces(7): CLONE_NEWTIME, a container with its uptime, a restored checkpoint) shifts
// CLOCK_MONOTONIC and the start time in /proc/PID/stat by the reader's offsets. Pages that several namespaces map hold
// both with the shift removed. Clocks that only pace this process, and absolute timeouts of system calls, keep the
// shift.
#pragma once

#include <time.h>

#include <cstdint>
#include <string_view>

namespace headgate::bare {

// Returns a clock of this process's time namespace, in nanoseconds.
inline std::int64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000ll + now.tv_nsec;
}

// Returns CLOCK_MONOTONIC of the initial time namespace, in nanoseconds. Costs a few nanoseconds more than the clock,
// except the first call after start or fork, which reads /proc/self. Without /proc, assumes the host's clock. Restores
// errno. Any thread.
std::int64_t host_ns();

// Converts a host_ns() time to this process's CLOCK_MONOTONIC, for system calls with absolute timeouts.
std::int64_t own_ns(std::int64_t host_ns);

// Converts field 22 of /proc/PID/stat, as this process reads it, to ticks of the initial time namespace, low 32 bits.
// Returns 0 if the offset is unknown.
std::uint32_t host_start_time(std::uint64_t ticks);

// Returns whether two known start times may be one process's; an offset of partial ticks shifts readings by up to one.
inline bool same_start(std::uint32_t a, std::uint32_t b) { return a - b + 1 <= 2; }

// Call in a forked child: it is in another namespace if the parent called unshare(CLONE_NEWTIME). Only stores.
void forget_clock_after_fork();

// How far a namespace's clocks are ahead of the host's.
struct ClockOffsets {
  std::int64_t monotonic_ns, boottime_ns;
};
// Parses /proc/PID/timens_offsets: lines of clock name, seconds, and nanoseconds (not negative). Returns false unless
// both clocks are there, within what the kernel allows (half of 2^63 ns).
bool parse_clock_offsets(std::string_view text, ClockOffsets& out);

}  // namespace headgate::bare
