// Descriptors of the simulator inside a user's program.
#pragma once

#include <fcntl.h>

#include "base/unique_fd.hpp"

namespace headgate::sim {

// Moves a descriptor to a number that programs do not use. A program that closed its standard output would otherwise
// get our file under number 1 and write its output there. Call it before a record lock is taken: closing the old number
// drops such a lock.
[[nodiscard]] inline UniqueFd out_of_the_way(UniqueFd fd) {
  constexpr int kOutOfTheWay = 100, kAboveTheStandardStreams = 3;
  if (!fd) return fd;
  int moved = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kOutOfTheWay);
  if (moved < 0 && fd.get() < kAboveTheStandardStreams)
    moved = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kAboveTheStandardStreams);
  return moved >= 0 || fd.get() < kAboveTheStandardStreams ? UniqueFd(moved) : std::move(fd);
}

}  // namespace headgate::sim
