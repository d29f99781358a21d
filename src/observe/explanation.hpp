// Reasons other than a false account for the driver to call processes busier than their share's account. Pure.
//
//   several at once   Kernels of MPS clients run at the same time, and a driver may count a time slice for each process
//                     that waited for one. The account divides such time among the shares.
//   work in flight    The limiter charges a command of unknown length as a short one, and in full when it ends.
//   a stall           The daemon or the limiter did not run, so that the figures are of different times.
#pragma once

#include <cstdint>
#include <string>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// Returns for how many processes the driver's figures of that GPU may count the same time, 1 or more. That is the sum
// of its figures for all there, but under MPS as many as there are.
[[nodiscard]] double counted_times(const snapshot::Snapshot& snapshot, const std::string& uuid);

// What a share did on a GPU in one step.
struct StepWork {
  bool in_flight = false;      // the process, or each busy one, had work in flight at all looks
  bool launched = false;       // the process, or one of them, has launched meanwhile
  std::uint64_t held_ns = 0;   // added to the share's account
  std::uint64_t launches = 0;  // of all processes of the share
};

// Returns whether the rest of the time may reach the account only when what is in flight has ended. So it is if nothing
// was launched since, or each launch was charged about as much as one of unknown length. It is not if the account does
// not move while launches end.
[[nodiscard]] bool may_be_in_flight(const StepWork& step);

}  // namespace headgate::observe
