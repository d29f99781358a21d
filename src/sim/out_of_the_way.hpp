// Descriptors of the simulator's within somebody's program.
#pragma once

#include <fcntl.h>

#include "base/unique_fd.hpp"

namespace headgate::sim {

// The same open file under a number that no program counts on. One that closed its standard output gets the lowest free
// numbers for whatever is opened next, and would write its output into our file. Before a record lock is taken: closing
// the first number drops it.
[[nodiscard]] inline UniqueFd out_of_the_way(UniqueFd fd) {
  constexpr int kOutOfTheWay = 100, kAboveTheStandardStreams = 3;
  if (!fd) return fd;
  int moved = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kOutOfTheWay);
  if (moved < 0 && fd.get() < kAboveTheStandardStreams)
    moved = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kAboveTheStandardStreams);
  return moved >= 0 || fd.get() < kAboveTheStandardStreams ? UniqueFd(moved) : std::move(fd);
}

}  // namespace headgate::sim
