// A bracket: a span of a stream between two of our events, and the meter's data for a stream and a context.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "guest/abi/cuda.hpp"
#include "guest/bare/short_lock.hpp"
#include "guest/ledger/gpu_page.hpp"
#include "guest/limiter/compute/clock_map.hpp"
#include "guest/limiter/compute/pacer.hpp"

namespace headgate::limiter {

using bare::ShortLock;  // a launch on several GPUs holds a stream's while it waits

// What other contexts had of a bracket's time until until_ns (undivided.hpp).
struct OthersPart {
  std::int64_t ns = 0, until_ns = 0;
};

struct Bracket {
  static constexpr std::uint32_t kFunctions = 4;
  abi::CUevent start = nullptr, end = nullptr;
  std::int64_t opened_ns = 0;    // host time when the start event had been submitted
  std::int64_t first_ns = 0;     // host time when the first launch had been submitted
  std::int64_t closed_ns = 0;    // host time when the end event had been submitted
  std::int64_t charged_ns = 0;   // GPU time charged to the account for it so far
  std::int64_t expected_ns = 0;  // the estimate for its launches
  std::int64_t long_ns = 0;      // of that, for kernels that are known to be long
  std::int64_t room_ns = 0;      // it counts as that in the share's sent_until_ns and in_flight_ns
  std::int64_t fresh_ns = 0;     // covered while it was still running
  std::int64_t covered_until_ns = 0;
  // Set if the bracket could not be closed when the program waited. If it began before this host time, its estimated
  // work had ended before the stream's next launch; 0: there was no such wait.
  std::int64_t dry_if_before_ns = 0;
  std::int64_t measures_ns = 0;     // as the first never measured, added to the share's unknown_until_ns
  std::uint64_t neighbours_ns = 0;  // what the share had been given back of others' time when it was opened
  OthersPart others{};
  bool kept = false;      // it should have ended, and went on: the stream's queue may have no room for a record
  bool ordered = false;   // and what should have ended it may have left the stream idle
  bool unknown = false;   // it counts in the pace's `unknown`
  bool doubtful = false;  // its one function's estimate said where in a long call it began
  std::uint32_t launches = 0;
  std::uint32_t waited = 0;  // of these, waited at the gate
  std::uint32_t function_count = 0;
  std::array<std::uint64_t, kFunctions> functions{};
  std::array<std::int64_t, kFunctions> estimates_ns{};  // at the time of the launch
};

// For how long launches went on after the GPU had come to this bracket. A call that blocks in a full queue does so
// while the GPU works on what was sent before.
inline std::int64_t launching_ns(const Bracket& bracket, std::int64_t start_event_ns) {
  return std::max<std::int64_t>(0, bracket.closed_ns - std::max(bracket.opened_ns, start_event_ns));
}

// It could not be closed where the program waited, and may have been idle until the next launch. What the GPU came to
// so late that the next launch was there before the last one ended was not.
inline bool holds_idle_time(const Bracket& bracket, std::int64_t start_event_ns) {
  return start_event_ns < bracket.dry_if_before_ns;
}

inline constexpr std::int64_t kUnmeteredNs = 100'000'000;  // a context that fails for less is not reported
inline constexpr std::int64_t kFirstRetryNs = 1'000'000, kLastRetryNs = 20'000'000;
inline constexpr std::int64_t kNeverMetered = INT64_MAX;

// cuda.h: an illegal address, a launch timeout, an assertion, and hardware faults up to "launch failed". Every later
// call in the context returns the same error.
constexpr bool gives_up_context(abi::CUresult result) {
  const auto code = static_cast<unsigned>(result);
  return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719);
}

struct ContextMeter {
  abi::CUcontext handle = nullptr;          // null: free
  std::uint32_t device = 0;                 // index into the pages
  std::atomic<bool> failed{false};          // an internal call failed twice: nothing is measured until retry_ns
  std::atomic<std::int64_t> retry_ns{0};    // host time; kNeverMetered: the driver has given up the context
  std::atomic<std::int64_t> failing_ns{0};  // host time since which measuring fails; 0: it works
  std::atomic<std::int64_t> rest_ns{0};     // from the last failure to the next attempt
  std::atomic<bool> failure_told{false};    // it has lasted kUnmeteredNs, and the share's owner was told
  std::atomic<abi::CUresult> failure{abi::CUDA_SUCCESS};
  std::atomic<const char*> failed_call{nullptr};
  ledger::ComputeAccount* account = nullptr;
  Pace* pace = nullptr;
  std::atomic<std::uint64_t>* launches = nullptr;  // in the process's slot; null: not counted
  ClockMap clock;
  abi::CUevent anchor = nullptr;  // the event that times count from, at gpu_base_ns
  std::int64_t gpu_base_ns = 0;
  // The settler's: finds time of other shares in this context's charges. No page: does not look.
  ledger::Seat seat;
  std::uint32_t seat_epoch = 0;      // of the pages in which it was searched; 0: not searched
  std::int64_t marked_until_ns = 0;  // 0: all of it was examined
  std::int64_t looked_back_ns = 0, looked_around_ns = 0;
  bool arbitrated = false;              // an arbiter gives its share turns on the GPU
  std::uint32_t stretched = 0;          // consecutive brackets that took longer than their kernels should
  std::int64_t least_stretched_ns = 0;  // the shortest of them
  std::uint32_t unclear = 0;            // shorter ones since the last that no others' work ran beside; without a daemon
  // A bracket that has ended, to be learned from once the marks of its time are there (undivided.hpp).
  struct Unlearned {
    std::uint64_t function = 0;           // 0: none
    std::int64_t from_ns = 0, to_ns = 0;  // host time
    OthersPart others;
  } unlearned;
  ledger::SliceReplay replay;
  bool undivided_taken = false;      // since the daemon ended
  std::int64_t side_by_side_ns = 0;  // when several of its streams last had work at once
  std::int32_t side_by_side = 0;     // how many then, at most; 0: there was no bracket yet
  // GPU time of the last end on any of its streams, and when kernels of several last waited for each other, or ran at once
  // (own_length_ns()).
  std::int64_t last_end_ns = 0, overlap_ns = 0, at_once_ns = 0;
  static constexpr std::uint32_t kPool = 512;
  ShortLock pool_lock;
  std::uint32_t pooled = 0;
  std::array<abi::CUevent, kPool> pool{};
};

inline constexpr unsigned long long kGoneStream = ~0ull;  // id of a destroyed stream while its brackets settle

// A driver's queue holds about a thousand commands per stream, and a command for a full queue blocks its caller. A
// program may fill it behind work that waits for that program, so our records must leave room. So at most kMaxBrackets
// are unsettled per stream, and kMaxBehindStuck if the oldest has been unfinished for kPatienceNs, or work of unknown
// length is in flight: a program can fill the queue behind that within a millisecond. At the limit, the open bracket
// stays open.
inline constexpr std::uint32_t kMaxBrackets = 32;
inline constexpr std::uint32_t kMaxBehindStuck = 8;
// And behind a wait for a value, a host function or a semaphore, which the program itself may have to end.
inline constexpr std::uint32_t kMaxBehindWait = 2;

struct alignas(64) StreamMeter {
  static constexpr std::uint32_t kClosed = kMaxBrackets;  // unsettled brackets
  // The launch path's cache line.
  std::atomic<std::int64_t> spent_ns{0};   // estimated time of the open bracket's launches
  std::atomic<std::uint32_t> launches{0};  // in the open bracket
  std::atomic<std::uint64_t> function{0};  // last launched
  std::atomic<bool> open{false};
  std::atomic<bool> used{false};
  std::atomic<abi::CUevent> open_start{nullptr};  // of the last opened bracket
  std::atomic<std::int32_t> unsettled{0};         // brackets, including the open one
  std::atomic<std::uint32_t> timed_copies{0};     // in progress
  // The settler's: when the oldest unfinished bracket should end, or when the last one ended. Negative: unknown; minus
  // the time it was opened.
  std::atomic<std::int64_t> due_ns{0};
  // Protected by `lock`.
  alignas(64) ShortLock lock;
  abi::CUstream handle = nullptr;
  unsigned long long id = 0;
  ContextMeter* context = nullptr;
  bool legacy = false;
  Bracket bracket;
  std::int64_t quantum_ns = 0;
  std::int64_t last_open_ns = 0;
  std::uint64_t finished_launches = 0;   // in all brackets that have ended
  std::uint64_t launches_at_record = 0;  // at the program's last event record on this stream
  std::int64_t section_ns = 0;           // may pass as debt before the program's next record (timed_section.hpp)
  // The program has queued a wait before the brackets from wait_tail on.
  std::atomic<bool> behind_wait{false};
  std::atomic<std::uint32_t> wait_tail{0};
  std::uint32_t thin_brackets = 0;  // consecutive; sometimes one launch is measured alone
  std::array<Bracket, kClosed> closed{};
  std::atomic<std::uint32_t> head{0}, tail{0};
  // Used only by the settler.
  std::int64_t last_end_ns = 0;  // GPU time of the last settled end
  // The same end in host time; kNothingOpen: it is an estimate. What follows at once on the GPU is marked from there,
  // however the clock's map has moved since: in a replay the context loses the GPU at a pause.
  std::int64_t marked_until_ns = 0;
  std::int64_t next_look_ns = 0;
  std::int64_t not_ready_ns = 0;  // when its oldest bracket was last seen not to have ended; 0: it was not looked at
  std::int64_t looks = 0;
  std::int64_t turn_ns = 0;  // start of the turn at its last look
  std::uint32_t seen_launches = 0;
  std::int64_t seen_ns = 0;
  // What a bracket covered before it was closed; identified by its start event. Null: none.
  abi::CUevent covered_open = nullptr;
  std::int64_t open_seen_ns = 0, open_covered_until_ns = 0, open_fresh_ns = 0;
};

// Returns whether a daemon gives turns on the context's GPU.
inline bool has_turns(const ContextMeter& context) {
  return context.arbitrated && context.pace->cycle_ns.load(std::memory_order_relaxed) == 0;
}

// Takes a bracket's work off what is in flight. It held the GPU for fresh_ns, and worked for worked_ns of that.
inline void settled_one(StreamMeter& stream, const Bracket& bracket, std::int64_t fresh_ns, std::int64_t worked_ns) {
  const ContextMeter& context = *stream.context;
  // In turns estimates count until nothing of the share is in flight. The process that settles first pays for the time
  // of all, and for what a neighbour had in it, so this says nothing of the process's part.
  const std::int64_t unused_ns = bracket.expected_ns - worked_ns;
  if (bracket.room_ns != 0)
    ended_in_share(*context.account, *context.pace, bracket.room_ns, has_turns(context) ? 0 : unused_ns);
  if (bracket.unknown) context.pace->unknown.fetch_sub(1, std::memory_order_relaxed);
  if (bracket.measures_ns != 0)
    context.account->unknown_until_ns.fetch_sub(bracket.measures_ns - fresh_ns, std::memory_order_relaxed);
  context.pace->unsettled_ns.fetch_sub(bracket.expected_ns, std::memory_order_relaxed);
  if (bracket.long_ns != 0) context.pace->long_ns.fetch_sub(bracket.long_ns, std::memory_order_relaxed);
  if (stream.unsettled.fetch_sub(1, std::memory_order_relaxed) == 1)
    context.pace->busy_streams.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
