// What else than a false account makes the driver call processes busier than the account of their share says. Pure.
//
//   several at once   Kernels of MPS clients run at the same time, and a driver may count a time slice for each process
//                     that waited for one. The account divides such time among the shares.
//   work in flight    A command whose length the limiter does not know is charged as a short one, and in full when it
//                     ends.
//   a stall           The daemon or the limiter did not run, so that the figures are of different times.
#pragma once

#include <cstdint>
#include <string>

#include "snapshot/snapshot.hpp"

namespace headgate::observe {

// For how many processes the driver's figures of that GPU may count the same time, 1 or more: the sum of what it says
// of all there, but under MPS as many as there are.
[[nodiscard]] double counted_times(const snapshot::Snapshot& snapshot, const std::string& uuid);

// What a share did on a GPU in one step.
struct StepWork {
  bool in_flight = false;      // the process, or each busy one, had work in flight at every look
  bool launched = false;       // the process, or one of them, has launched meanwhile
  std::uint64_t held_ns = 0;   // more than before in the share's account
  std::uint64_t launches = 0;  // of all processes of the share
};

// Whether the rest of the time may be in the account only when what is in flight has ended: nothing was launched since,
// or each launch was charged about as much as one of unknown length is. An account that stands still while launches end
// is not so explained.
[[nodiscard]] bool may_be_in_flight(const StepWork& step);

}  // namespace headgate::observe
