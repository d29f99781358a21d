// Splits the error of a share, window by window, into what its client and the machine did and what the gate did wrong.
//
// For a window of W ns: `asked` is the limit, `got` is truth's held time over W. A surplus is always the gate's. A
// shortfall is excused, at most, by the part of the limit that the client could not use:
//
//   idle   the time in W in which no thread of the client was inside a launch or waiting for launched work (its own
//   log), or
//   late   the time in W by which a thread that did nothing but sleep on the same machine woke late (above 0.2 ms a
//          time): the gate was open and the operating system had not yet run who waited at it
//
//   excused = min(shortfall, limit * (idle + late) / W)        the gate was open but the client did not ask
//   wrong   = shortfall - excused, or the surplus              the gate was wrong: this part is judged
//
// Nothing is excused twice and no window is left out.
#pragma once

#include <cstdint>
#include <vector>

namespace headgate::bench {

struct Bucket {
  std::int64_t held_ns = 0;
  std::int64_t idle_ns = 0;
  std::int64_t late_ns = 0;
};

// All in points (percent of the GPU).
struct Accuracy {
  std::size_t windows = 0;
  double bias = 0;        // mean of got - asked over all windows
  double rms = 0;         // of got - asked
  double worst = 0;       // largest |got - asked|
  double wrong_bias = 0;  // the same three of the judged part
  double wrong_rms = 0;
  double wrong_worst = 0;
};

// `limit` is a ratio; windows are `per_window` buckets long and do not overlap; an incomplete last one is dropped.
[[nodiscard]] Accuracy accuracy(const std::vector<Bucket>& buckets, std::int64_t bucket_ns, std::size_t per_window,
                                double limit);

// The same split for tenants who share a GPU: of each, by how many points it got more or less than asked_percent over
// all buckets, without what was excused. Nobody can have what another might have had but did not ask for, and everybody
// may take it: a surplus is excused up to the sum of what was excused of the others' shortfalls.
[[nodiscard]] std::vector<double> wrong_parts(const std::vector<std::vector<Bucket>>& tenants, std::int64_t bucket_ns,
                                              const std::vector<double>& asked_percent);

}  // namespace headgate::bench
