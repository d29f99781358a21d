// What a load is: parsed from the words behind `headgate-load`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "load/kernels.hpp"
#include "load/mix.hpp"

namespace headgate::load {

// When a thread waits for the GPU. `full` never waits: the queue or the gate blocks the launch, so demand is always
// there.
enum class SyncStyle { full, each, batch, depth };

struct Options {
  Mix mix;
  unsigned processes = 1;  // 1..64
  unsigned threads = 1;    // of each process, 1..128
  unsigned streams = 1;    // of each thread, 1..128; used in turn
  SyncStyle sync = SyncStyle::full;
  unsigned sync_launches = 1;  // batch and depth: how many launches
  double gap_us = 0;           // the host sleeps so long after each launch (after each wait, for batch)
  double duration_us = 1e6;
  std::uint64_t most_launches = 0;  // of each thread; 0: no bound
  unsigned blocks = 1;              // of each kernel, 1..65535; the kernel is as long as it is while they fit the card
  unsigned graph_kernels = 0;       // > 0: launches graphs of so many kernels instead
  double rounds_per_us = 0;         // > 0: kernels of fixed work (load_busy_kernel)
  LaunchCall call = LaunchCall::plain;  // of kernels; those of a graph are captured by it
  bool per_thread = false;  // the _ptsz twins, each thread on its own default stream; needs one stream a thread
  int device = 0;
  std::uint64_t memory_bytes = 0;   // of each process, taken before the start and kept
  std::uint64_t attempt_bytes = 0;  // of each process, taken next; a refusal is reported, not an error
  bool edge = false;  // then looks for the limit's last byte: takes all that is free and one byte more, in two tries
  std::uint64_t grow_bytes = 0;  // > 0: asks for so much more after each gap, until it is refused; with no_launches
  bool no_launches = false;      // takes its memory and stays for the duration
  bool quiet_idle = false;       // leave the list of idle buckets out of the report
  bool help = false;

  friend bool operator==(const Options&, const Options&) = default;
};

// Errors (usage) name the option, the value and what is accepted.
[[nodiscard]] Result<Options> parse_options(std::span<const std::string_view> words);

[[nodiscard]] std::string_view usage();

}  // namespace headgate::load
