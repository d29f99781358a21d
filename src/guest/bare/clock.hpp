// The host's clocks: of the initial time namespace, so that processes of any two namespaces mean the same by a number.
//
// In a time namespace (time_namespaces(7): CLONE_NEWTIME, a container's own uptime, a restored checkpoint)
// CLOCK_MONOTONIC is shifted, and so is the start time in /proc/PID/stat, by the offsets of whoever reads it. Both are
// kept in pages that processes of several namespaces map: what stands there is shifted back. Clocks that only pace the
// process itself, and absolute timeouts of system calls, stay its own.
#pragma once

#include <cstdint>
#include <string_view>

namespace headgate::bare {

// CLOCK_MONOTONIC of the initial time namespace in nanoseconds. A few nanoseconds more than the clock itself, but for
// the first call after the start or a fork, which reads /proc/self; without one the clock is taken for the host's.
// Restores errno. Any thread.
std::int64_t host_ns();

// A time of host_ns() on this process's CLOCK_MONOTONIC, as system calls with absolute timeouts take it.
std::int64_t own_ns(std::int64_t host_ns);

// Field 22 of /proc/PID/stat, as this process reads it, in the ticks of the initial time namespace, low 32 bits. 0: not
// known.
std::uint32_t host_start_time(std::uint64_t ticks);

// Whether two of them, both known, are of one process: an offset that is no whole tick moves what is read by up to one.
inline bool same_start(std::uint32_t a, std::uint32_t b) { return a - b + 1 <= 2; }

// In a forked child, whose namespace is another where the parent has called unshare(CLONE_NEWTIME). Only stores.
void forget_clock_after_fork();

// What a namespace's clocks are ahead of the host's.
struct ClockOffsets {
  std::int64_t monotonic_ns, boottime_ns;
};
// /proc/PID/timens_offsets: lines of a clock's name, seconds, and nanoseconds from 0 on. False unless both clocks are
// there, within what the kernel allows (half of 2^63 ns).
bool parse_clock_offsets(std::string_view text, ClockOffsets& out);

}  // namespace headgate::bare
