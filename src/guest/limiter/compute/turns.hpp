// The share's turns on a GPU arbitrated by headgated (guest/ledger/gate.hpp), for launches and the settler.
#pragma once

#include <cstdint>

#include "guest/limiter/compute/ring_time.hpp"
#include "guest/limiter/compute/stream_table.hpp"

namespace headgate::limiter {

inline bool arbitrated(std::uint32_t device) {
  return session.policy->devices[device].arbitrated.load(std::memory_order_relaxed) != 0;
}
// Returns the ceiling by which launches are priced. Without a ceiling, the account never shuts the gate in turns. While
// no daemon runs, DevicePolicy::compute_unattended_ppm replaces the ceiling.
std::uint32_t ceiling_in_turns(std::uint32_t device, std::uint32_t ceiling_ppm);
// Returns whether launches may pass without a check until the gate's epoch moves.
bool turn_is_open(std::uint32_t device);
// Returns whether the share's turn ends with its last kernels, so that launches have not waited for other shares yet.
bool turn_is_ending(std::uint32_t device);
// Whether the arbiter keeps the share's work from that GPU now: what is late there waits for its turn.
bool is_shut_out(std::uint32_t device);

// Call when a launch on this stream is requested: reports the work's pauses to the arbiter. known_ns: its length; 0:
// unknown.
void note_request(const StreamMeter& stream, std::int64_t known_ns);
// Work in flight is reported to the arbiter, and to the ranks of a share on several GPUs (multi_gpu_gate.hpp).
inline bool reports_work(std::uint32_t device) { return arbitrated(device) || metered.device_count > 1; }
// Reports work in flight, and wakes launches that wait for room once there is none. For the settler, all devices; that
// also checks four times a second whether the daemon has ended.
void report_work();
void report_work(std::uint32_t device);

// One launch's wait for its share's turn; visible in the slot while it waits.
class TurnWait {
 public:
  explicit TurnWait(std::uint32_t device);
  ~TurnWait() { leave(); }
  TurnWait(const TurnWait&) = delete;
  TurnWait& operator=(const TurnWait&) = delete;

  // Call before reading the policy page: a wait then ends at once if the page has changed since.
  void look();
  // Under the stream's lock. Returns how long the launch must wait; 0: it may pass, with est_ns of the batch taken.
  std::int64_t wait_ns(StreamMeter& stream, std::int64_t est_ns);
  // Call if wait_ns() returned 0 but another rule stops the launch: returns its est_ns to the batch.
  void give_back();
  // Call if it does not want to pass: the share is paused.
  void leave();
  // Waits until the gate moves, at most `ns`.
  void wait(std::int64_t ns);
  // Waits until nothing of the process is in flight on the device, at most `ns`: for room behind its own work.
  void wait_for_room(std::int64_t ns) const;

 private:
  bool deserted();
  void begin();

  const std::uint32_t device_;
  std::uint32_t epoch_ = 0, room_ = 0;
  bool waiting_ = false;
  bool shut_ = false, queued_ = false;  // at the last look; queued: shut, and the arbiter knows that we want the GPU
  std::int64_t taken_ns_ = 0;
  // Since when no heartbeat of the daemon was seen, counting only time in which this thread ran.
  std::uint64_t beat_ = 0;
  std::int64_t looked_ns_ = 0, without_beat_ns_ = 0;
  RingTime ring_time_;
};

void turns_reset_after_fork();

}  // namespace headgate::limiter
