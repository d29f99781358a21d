// The options of a load, parsed from headgate-load's arguments, and the durations of its kernels, from a text such as
// "200us", "lognormal:200us,1.0,seed=7" or "list:20us,200us,1ms".
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "load/kernels.hpp"

namespace headgate::load {

enum class MixKind { fixed, lognormal, list };

struct Mix {
  MixKind kind = MixKind::fixed;
  std::vector<double> times_us{200.0};  // fixed: one; lognormal: the median; list: used in turn
  double sigma = 0.0;                   // lognormal: standard deviation of the logarithm
  std::uint64_t seed = 1;

  friend bool operator==(const Mix&, const Mix&) = default;
};

// Accepts TIME | fixed:TIME | lognormal:TIME,SIGMA[,seed=N] | list:TIME,TIME...; TIME is a number with ns, us, ms or s,
// 0.001 us to 60 s; SIGMA 0..3. Errors: usage, with the value and these forms.
[[nodiscard]] Result<Mix> parse_mix(std::string_view text);

// Parses a time with its unit to microseconds.
[[nodiscard]] Result<double> parse_time_us(std::string_view text);

// A stream of kernel durations. Equal mix and salt give equal streams. Not thread-safe.
class MixSource {
 public:
  MixSource(const Mix& mix, std::uint64_t salt);
  [[nodiscard]] double next_us();

 private:
  Mix mix_;
  std::uint64_t state_;
  std::size_t position_ = 0;
};

// When a thread waits for the GPU. `full` never waits: only the queue or gate blocks launches, so there is always
// demand.
enum class SyncStyle { full, each, batch, depth };

struct Options {
  Mix mix;
  unsigned processes = 1;  // 1..64
  unsigned threads = 1;    // per process, 1..128
  unsigned streams = 1;    // per thread, 1..128; used in turn
  SyncStyle sync = SyncStyle::full;
  unsigned sync_launches = 1;  // batch and depth: number of launches
  double gap_us = 0;           // sleep after each launch (batch: after each wait)
  double duration_us = 1e6;
  std::uint64_t most_launches = 0;      // per thread; 0: no limit
  unsigned blocks = 1;                  // per kernel, 1..65535; its duration is exact while they fit the GPU at once
  unsigned graph_kernels = 0;           // > 0: launches graphs of this many kernels instead
  double rounds_per_us = 0;             // > 0: kernels of fixed work (load_busy_kernel)
  LaunchCall call = LaunchCall::plain;  // for kernels; graphs capture it
  bool per_thread = false;  // the _ptsz variants, each thread on its default stream; requires one stream per thread
  int device = 0;
  std::uint64_t memory_bytes = 0;   // per process, allocated before the start and kept
  std::uint64_t attempt_bytes = 0;  // per process, allocated next; a refusal is reported, not an error
  bool edge = false;             // then tries to allocate all free memory plus one byte, then exactly all that is free
  std::uint64_t grow_bytes = 0;  // > 0: asks for this much more after each gap until refused; requires no_launches
  bool no_launches = false;      // allocates its memory and stays for the duration
  bool quiet_idle = false;       // omit the list of idle buckets from the report
  bool help = false;

  friend bool operator==(const Options&, const Options&) = default;
};

// Errors: usage, naming the option, the value and what is accepted.
[[nodiscard]] Result<Options> parse_options(std::span<const std::string_view> words);

[[nodiscard]] std::string_view usage();

}  // namespace headgate::load
