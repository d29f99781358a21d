// What launching threads do for the meter: open brackets, count into them, close them, each inside its own call. The settler's
// half: meter.hpp.
// Pure: Port is the driver and the clock, a real one in the shell, a modelled one in the tests.
//
//   struct Port {
//     std::int64_t now_ns();                                     // host time
//     abi::CUresult create(abi::CUevent*);                       // in the calling thread's context
//     void destroy(abi::CUevent);                                // neither enqueues nor waits, finished or not
//     abi::CUresult record(abi::CUevent, abi::CUstream);
//     abi::CUresult query(abi::CUevent);                         // SUCCESS, NOT_READY, or a failure
//     abi::CUresult elapsed(float* ms, abi::CUevent, abi::CUevent);
//     abi::CUresult idle(abi::CUstream, ContextMeter&);          // cuStreamQuery where a capture forbids nothing, else NOT_READY
//     void enter(ContextMeter&);                                // the settler is about to ask about this context
//     std::uint32_t ceiling_ppm(const ContextMeter&);            // what the share's policy says
//     std::uint32_t burst_ppm(const ContextMeter&);              // the same, while no other share works; 0: none
//     void failed(ContextMeter&, abi::CUresult, const char* call);
//   };
#pragma once

#include <algorithm>
#include <cstdint>

#include "guest/limiter/compute/bracket.hpp"
#include "guest/limiter/compute/estimates.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kAloneNs = 200'000;  // commands this long get a bracket each
inline constexpr std::int64_t kQuantumNs = 1'000'000;
inline constexpr std::int64_t kMostQuantumNs = 10'000'000;
inline constexpr std::int64_t kUnevenWaitNs = 300'000;  // between two tries of a launch whose length nobody can tell
inline constexpr std::uint32_t kNearlyAllPpm = 900'000;
inline constexpr std::int64_t kLongestProofNs = 5'000'000;
inline constexpr std::uint32_t kProbeEvery = 8;  // thin brackets between two that hold one launch

template <typename Port>
class LaunchMeter {
 public:
  constexpr LaunchMeter(Port& port, Estimates& estimates) : port_(port), estimates_(estimates) {}

  // Before the first launch of a bracket: records the start event.
  void open(StreamMeter& stream) {
    ContextMeter& context = *stream.context;
    Bracket& bracket = stream.bracket;
    bracket = {};
    stream.launches.store(0, std::memory_order_relaxed);
    stream.function.store(0, std::memory_order_relaxed);
    stream.spent_ns.store(0, std::memory_order_relaxed);
    if (!take_event(context, bracket.start) || !take_event(context, bracket.end)) return;
    const std::int64_t before_ns = port_.now_ns();
    if (!good(context, port_.record(bracket.start, stream.handle), "cuEventRecord")) return;
    bracket.opened_ns = port_.now_ns();
    // Two records a bracket: where they take more than 2 % of the thread's time, brackets get longer.
    const std::int64_t cost_ns = 2 * (bracket.opened_ns - before_ns);
    if (stream.last_open_ns != 0 && cost_ns * 50 > bracket.opened_ns - stream.last_open_ns)
      stream.quantum_ns = std::min(stream.quantum_ns * 2, kMostQuantumNs);
    stream.last_open_ns = bracket.opened_ns;
    context.pace->open.fetch_add(1, std::memory_order_relaxed);
    if (stream.unsettled.fetch_add(1, std::memory_order_relaxed) == 0)
      context.pace->busy_streams.fetch_add(1, std::memory_order_relaxed);
    stream.open.store(true, std::memory_order_release);
    if (context.pace->oldest_ns.load(std::memory_order_relaxed) == 0)
      context.pace->oldest_ns.store(bracket.opened_ns, std::memory_order_relaxed);
  }

  // After a wait between the count of a bracket's first launch and the launch itself: the bracket begins now.
  void begin_again(StreamMeter& stream) {
    if (!stream.open.load() || stream.launches.load() != 1) return;
    if (!good(*stream.context, port_.record(stream.bracket.start, stream.handle), "cuEventRecord")) return;
    stream.bracket.opened_ns = stream.last_open_ns = port_.now_ns();
  }

  // Accounts one launch of `function` to the open bracket; before the launch itself.
  void count(StreamMeter& stream, std::uint64_t function, std::int64_t est_ns) {
    stream.spent_ns.store(stream.spent_ns.load(std::memory_order_relaxed) + est_ns, std::memory_order_relaxed);
    stream.launches.store(stream.launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    Bracket& bracket = stream.bracket;
    if (bracket.ended) {
      bracket.overran |= bracket.ordered;
      bracket.ended = bracket.ordered = false;
    }
    if (stream.function.load(std::memory_order_relaxed) == function) return;
    stream.function.store(function, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < bracket.function_count; ++i)
      if (bracket.functions[i] == function) return;
    if (bracket.function_count < Bracket::kFunctions) {
      bracket.estimates_ns[bracket.function_count] = est_ns;
      bracket.functions[bracket.function_count++] = function;
    }
  }

  // After the launch returned.
  void launched(StreamMeter& stream, bool alone) {
    if (!stream.open.load(std::memory_order_relaxed)) return;
    if (stream.bracket.first_ns == 0) stream.bracket.first_ns = port_.now_ns();
    const bool probe = stream.thin_brackets != 0 && stream.thin_brackets % kProbeEvery == 0;
    if (probe) ++stream.thin_brackets;  // one is enough, however long its settlement takes
    if (alone || probe || stream.bracket.function_count == Bracket::kFunctions) close(stream, false);
  }

  // One launch past the gate. 0: it is paid for, counted, and a bracket is open unless the context failed. Else how long to
  // wait before asking again; nothing of the stream is open then.
  std::int64_t pass(StreamMeter& stream, std::uint64_t function, std::int64_t est_ns, bool alone, bool chained,
                    std::int64_t asked_ns) {
    ContextMeter& context = *stream.context;
    if (alone || full(stream, chained) || stream.bracket.ended) close(stream, false);
    // What is nearly the whole GPU's cannot run far ahead, and rests whenever too little was sent: a launch of unknown length
    // counts as a short one then.
    const std::int64_t now_ns = port_.now_ns();
    const std::uint32_t rate_ppm =
        ledger::rate_now(*context.account, port_.ceiling_ppm(context), port_.burst_ppm(context), now_ns);
    if (alone && rate_ppm >= kNearlyAllPpm && estimates_.uneven(function)) est_ns = std::min(est_ns, kUnknownCommandNs);
    // Of what must be measured launch by launch no more is sent than there is room to measure.
    const bool crowded = alone && stream.open.load(std::memory_order_relaxed);
    if (crowded || !take_credit(*context.pace, est_ns)) {
      Admission admission = admit(*context.account, *context.pace, rate_ppm, port_.now_ns(), asked_ns, est_ns, crowded,
                                  stream.due_ns.load(std::memory_order_relaxed));
      if (admission.wait_ns != 0 && !crowded && proves(stream, function)) admission = prove(context, est_ns, rate_ppm);
      if (admission.wait_ns != 0) {
        close(stream);
        // What was charged for such a kernel may come back at any moment: its settlement wakes nobody.
        if (context.pace->busy_streams.load(std::memory_order_relaxed) == 0 || !estimates_.uneven(function))
          return admission.wait_ns;
        return std::min(admission.wait_ns, std::max(kUnevenWaitNs, (port_.now_ns() - asked_ns) / 2));
      }
      if (admission.debt) context.account->passed_in_debt.fetch_add(1, std::memory_order_relaxed);
      context.pace->credit_ns.fetch_add(admission.credit_ns - est_ns, std::memory_order_relaxed);
    }
    if (!stream.open.load()) open(stream);
    count(stream, function, est_ns);
    return 0;
  }

  // Whether this launch can be measured, as the ones before it could not: the same is still running on its stream.
  bool proves(const StreamMeter& stream, std::uint64_t function) {
    const std::int64_t now_ns = port_.now_ns();
    const std::int64_t known_ns = estimates_.known_ns(function);
    if (known_ns > kLongestProofNs || stream.function.load(std::memory_order_relaxed) != function ||
        now_ns - stream.last_open_ns > known_ns - known_ns / 4 || !estimates_.wants_proof(function, now_ns))
      return false;
    estimates_.proof_asked(function, now_ns);
    return true;
  }
  // It passes before its time, as debt.
  Admission prove(ContextMeter& context, std::int64_t est_ns, std::uint32_t rate_ppm) {
    const std::int64_t now_ns = port_.now_ns();
    ledger::charge_debt(*context.account, now_ns, est_ns, rate_ppm, catch_up_ns(*context.pace, rate_ppm, now_ns));
    context.pace->busy_until_ns.fetch_add(est_ns, std::memory_order_relaxed);
    return {.wait_ns = 0, .credit_ns = est_ns, .debt = false};
  }

  // What the launches of the open bracket are estimated at.
  std::int64_t expected_ns(const StreamMeter& stream) const {
    return stream.open.load(std::memory_order_relaxed) ? stream.spent_ns.load(std::memory_order_relaxed) : 0;
  }
  bool full(const StreamMeter& stream, bool chained) const {
    return expected_ns(stream) >= (chained ? 4 : 1) * stream.quantum_ns;
  }

  // Records the end event and hands the bracket to the settler; what it did not use is given back.
  void close(StreamMeter& stream, bool orders = true) {
    if (!stream.open.load(std::memory_order_relaxed) || stream.id == kGoneStream) return;
    ContextMeter& context = *stream.context;
    Bracket& bracket = stream.bracket;
    if (!bracket.ended) {
      if (!good(context, port_.record(bracket.end, stream.handle), "cuEventRecord")) return;
      bracket.closed_ns = port_.now_ns();
      if (bracket.first_ns == 0) bracket.first_ns = bracket.closed_ns;
      bracket.ended = true;
    }
    bracket.ordered |= orders;
    hand_over(stream);
  }
  bool hand_over(StreamMeter& stream) {
    const std::uint32_t tail = stream.tail.load(std::memory_order_relaxed);
    if (tail - stream.head.load(std::memory_order_acquire) == StreamMeter::kClosed) return false;
    finish(stream);
    stream.closed[tail % StreamMeter::kClosed] = stream.bracket;
    stream.open.store(false, std::memory_order_relaxed);
    stream.tail.store(tail + 1, std::memory_order_release);
    return true;
  }

  // From the context's pool; null and false: the driver made none.
  bool take_event(ContextMeter& context, abi::CUevent& event) {
    if (context.pool_lock.try_lock()) {
      if (context.pooled != 0) event = context.pool[--context.pooled];
      context.pool_lock.unlock();
    }
    return event != nullptr || good(context, port_.create(&event), "cuEventCreate");
  }

 protected:
  // What the account is charged at.
  std::uint32_t rate_ppm(const ContextMeter& context) {
    return ledger::rate_in_force(*context.account, port_.ceiling_ppm(context));
  }

  // An internal call must succeed; else the gate is open for this context from now on.
  bool good(ContextMeter& context, abi::CUresult result, const char* call) {
    if (result == abi::CUDA_SUCCESS) return true;
    if (!context.failed.exchange(true)) port_.failed(context, result, call);
    return false;
  }

  // The bracket is over; with the last one of the process, what was charged and not used goes back.
  void finish(StreamMeter& stream) {
    Bracket& bracket = stream.bracket;
    bracket.launches = stream.launches.load(std::memory_order_relaxed);
    bracket.charged_ns = bracket.expected_ns = stream.spent_ns.load(std::memory_order_relaxed);
    ContextMeter& context = *stream.context;
    context.pace->unsettled_ns.fetch_add(bracket.expected_ns, std::memory_order_relaxed);
    if (context.launches != nullptr) context.launches->fetch_add(bracket.launches, std::memory_order_relaxed);
    const std::uint32_t prompt = bracket.launches - std::min(bracket.launches, bracket.waited);
    if (prompt != 0) context.account->delays.prompt.fetch_add(prompt, std::memory_order_relaxed);
    if (context.pace->open.fetch_sub(1, std::memory_order_relaxed) != 1) return;
    const std::int64_t left = context.pace->credit_ns.exchange(0, std::memory_order_relaxed);
    ledger::correct(*context.account, -left, rate_ppm(context));
    give_room(*context.pace, left);
  }

  Port& port_;
  Estimates& estimates_;
};

}  // namespace headgate::limiter
