// One thread of a share's process on a modelled node, and what the meter keeps of it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "exactness/node_model.hpp"
#include "guest/limiter/compute/timer_lateness.hpp"

namespace headgate::limiter::model {

// At this price, the account of a share without a ceiling never causes a wait.
inline constexpr std::uint32_t kNoCeiling = 4 * ledger::kWholeGpu;

template <typename Handle>
std::uint32_t number(Handle h) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(h) - 16);
}

struct Node::Tenant {
  ModelPort port;
  Estimates estimates;
  Pace pace;
  ContextMeter context;
  std::vector<StreamMeter> streams;
  std::unique_ptr<Meter<ModelPort>> meter;
  const Load* load = nullptr;
  std::size_t entry = 0;
  std::uint32_t ceiling = 0;
  std::uint32_t burst = 0;  // 0 with an arbiter, which distributes what exceeds the guarantee
  bool settler_idle = true;
  // State of the thread.
  bool busy = false;  // at the settler's last look
  bool has_kernel = false, wanting = false, waits_for_end = false, parked = false, was_shut = false;
  Kernel kernel;
  std::int64_t asked_ns = 0, batch_due_ns = 0;
  int in_batch = 0;
  std::int64_t due_ns = 0;
  bool sleeps = false;  // until its work ahead has ended; woken when nothing is ahead
  std::uint64_t steps = 0, launched = 0;
  std::int64_t portion_left_ns = 0;
  std::int64_t wake_up_late_ns = kDefaultLatenessNs;
  std::vector<std::int64_t> latencies;
  bool dead = false;
  // Of the launch in progress: kernels that its stream's queue had no room for.
  int nodes_left = 0;
  bool alone = false;
  // The last launches, oldest first: stream and number of their last command.
  std::deque<std::pair<std::uint32_t, std::uint64_t>> sent;
  std::size_t next_stream = 0;
  StreamMeter& stream() { return streams[next_stream]; }
  std::uint32_t engine_stream() { return number(stream().handle); }
  void close_all() {
    for (StreamMeter& each : streams) meter->close(each);
  }
};

}  // namespace headgate::limiter::model
