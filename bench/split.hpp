// Splits a share's error, window by window, into what its client and the machine caused and what the gate did wrong.
//
// For a window of W ns: `asked` is the limit, `got` is truth's held time over W. A surplus is always the gate's error.
// A shortfall is excused, at most, by the part of the limit that the client could not use:
//
//   idle   the time in W with no client thread inside a launch or waiting for launched work (from its log), or
//   late   the total lateness in W of a thread on the same machine that only sleeps (above 0.2 ms each): the gate was
//          open, and the operating system had not yet scheduled the waiting thread
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

// All values in points (percent of the GPU).
struct Accuracy {
  std::size_t windows = 0;
  double bias = 0;        // mean of got - asked over all windows
  double rms = 0;         // of got - asked
  double worst = 0;       // largest |got - asked|
  double wrong_bias = 0;  // the same three for the judged part
  double wrong_rms = 0;
  double wrong_worst = 0;
};

// `limit` is a ratio. Windows have `per_window` buckets and do not overlap; an incomplete last window is dropped.
[[nodiscard]] Accuracy accuracy(const std::vector<Bucket>& buckets, std::int64_t bucket_ns, std::size_t per_window,
                                double limit);

// The same split for tenants that share a GPU. Returns for each how many points it got above or below asked_percent
// over all buckets, without what is excused. A tenant cannot use what another could have used but did not request, yet
// any tenant may take it: surpluses are excused up to the sum of the others' excused shortfalls.
[[nodiscard]] std::vector<double> wrong_parts(const std::vector<std::vector<Bucket>>& tenants, std::int64_t bucket_ns,
                                              const std::vector<double>& asked_percent);

}  // namespace headgate::bench
