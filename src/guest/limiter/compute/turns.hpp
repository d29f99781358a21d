// The share's turns on a GPU that headgated arbitrates (guest/ledger/gate.hpp), as launches and the settler see them.
#pragma once

#include <cstdint>

#include "guest/limiter/compute/stream_table.hpp"

namespace headgate::limiter {

inline bool arbitrated(std::uint32_t device) {
  return session.policy->devices[device].arbitrated.load(std::memory_order_relaxed) != 0;
}
// The ceiling by which launches are priced. If the share has none, its account of turns never shuts the gate. While no
// daemon runs, what it left to the share (DevicePolicy::compute_unattended_ppm) stands in for the ceiling.
std::uint32_t ceiling_in_turns(std::uint32_t device, std::uint32_t ceiling_ppm);
// Whether launches may pass without a look for as long as the gate's epoch stays.
bool turn_is_open(std::uint32_t device);
// Whether the arbiter keeps the share's work from that GPU now: what is late there waits for its turn.
bool is_shut_out(std::uint32_t device);

// A launch on this stream is asked for: what the arbiter learns of the work's pauses. known_ns: how long such a one is;
// 0: unknown.
void note_request(const StreamMeter& stream, std::int64_t known_ns);
// The arbiter asks what is in flight, and so do the ranks of a share on several GPUs (multi_gpu_gate.hpp).
inline bool reports_work(std::uint32_t device) { return arbitrated(device) || metered.device_count > 1; }
// What is in flight, for them; wakes the launches that wait for room once nothing is. For the settler, all devices; it
// also looks for the daemon's end, four times a second.
void report_work();
void report_work(std::uint32_t device);

// One launch's wait for its share's turn. Says in the slot that it waits, until it goes.
class TurnWait {
 public:
  explicit TurnWait(std::uint32_t device);
  ~TurnWait() { leave(); }
  TurnWait(const TurnWait&) = delete;
  TurnWait& operator=(const TurnWait&) = delete;

  // Before anything of the policy page is read: a wait ends at once where that has changed since.
  void look();
  // Under the stream's lock: how long the launch waits yet; 0: it may pass, and est_ns of a portion is taken.
  std::int64_t wait_ns(StreamMeter& stream, std::int64_t est_ns);
  // It may not pass after all, for another reason.
  void give_back();
  // It does not want to pass: the share is paused.
  void leave();
  // Until the gate moves, or so long.
  void wait(std::int64_t ns);
  // Until nothing of the process is in flight on the device, or so long: for who waits for room behind its own work.
  void wait_for_room(std::int64_t ns) const;

 private:
  bool deserted();
  void begin();

  const std::uint32_t device_;
  std::uint32_t epoch_ = 0, room_ = 0;
  bool waiting_ = false;
  bool shut_ = false, queued_ = false;  // at the last look; queued: shut, and the arbiter knows that we want the GPU
  std::int64_t taken_ns_ = 0;
  // Since when no beat of the daemon's has been seen, as far as this thread was running.
  std::uint64_t beat_ = 0;
  std::int64_t looked_ns_ = 0, without_beat_ns_ = 0, rang_ns_ = 0;
};

void turns_reset_after_fork();

}  // namespace headgate::limiter
