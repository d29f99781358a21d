// The launching threads' part of the meter: open brackets, count launches into them, close them, each within its own
// call. The settler's part: meter.hpp. Pure: Port is the driver and the clock, real in the limiter, modelled in tests.
//
//   struct Port {
//     std::int64_t now_ns();                                     // host time
//     abi::CUresult create(abi::CUevent*);                       // in the calling thread's context
//     void destroy(abi::CUevent);                                // neither enqueues nor waits, finished or not
//     abi::CUresult record(abi::CUevent, abi::CUstream);
//     abi::CUresult query(abi::CUevent);                         // SUCCESS, NOT_READY, or a failure
//     abi::CUresult elapsed(float* ms, abi::CUevent, abi::CUevent);
//     abi::CUresult idle(abi::CUstream, ContextMeter&);          // cuStreamQuery, or NOT_READY during a capture
//     void enter(ContextMeter&);                                 // before the settler queries this context
//     std::uint32_t ceiling_ppm(const ContextMeter&);            // by the share's policy
//     std::uint32_t burst_ppm(const ContextMeter&);              // the same while no other share works; 0: none
//     void failed(ContextMeter&, abi::CUresult, const char* call);
//   };
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "guest/limiter/compute/bracket.hpp"
#include "guest/limiter/compute/estimates.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kQuantumNs = 1'000'000;
inline constexpr std::int64_t kMaxQuantumNs = 10'000'000;
inline constexpr std::int64_t kUnevenWaitNs = 300'000;  // between two attempts of a launch of unpredictable length
inline constexpr std::uint32_t kNearlyAllPpm = 900'000;
inline constexpr std::int64_t kLongestProofNs = 5'000'000;
inline constexpr std::uint32_t kProbeEvery = 8;  // thin brackets from one single-launch bracket to the next

template <typename Port>
class LaunchMeter {
 public:
  constexpr LaunchMeter(Port& port, Estimates& estimates) : port_(port), estimates_(estimates) {}

  // Call before a bracket's first launch: records the start event.
  void open(StreamMeter& stream) {
    ContextMeter& context = *stream.context;
    Bracket& bracket = stream.bracket;
    bracket = {};
    stream.launches.store(0, std::memory_order_relaxed);
    stream.function.store(0, std::memory_order_relaxed);
    stream.spent_ns.store(0, std::memory_order_relaxed);
    if (!take_event(context, bracket.start) || !take_event(context, bracket.end)) return drop_events(bracket);
    const std::int64_t before_ns = port_.now_ns();
    const auto record = [&] { return port_.record(bracket.start, stream.handle); };
    if (!good(context, twice(record), "cuEventRecord")) return drop_events(bracket);
    bracket.opened_ns = port_.now_ns();
    bracket.neighbours_ns = context.account->neighbours_ns.load(std::memory_order_relaxed);
    // A bracket needs two records: if they take more than 2 % of the thread's time, make brackets longer.
    const std::int64_t cost_ns = 2 * (bracket.opened_ns - before_ns);
    if (stream.last_open_ns != 0 && cost_ns * 50 > bracket.opened_ns - stream.last_open_ns)
      stream.quantum_ns = std::min(stream.quantum_ns * 2, kMaxQuantumNs);
    stream.last_open_ns = bracket.opened_ns;
    context.pace->open.fetch_add(1, std::memory_order_relaxed);
    if (stream.unsettled.fetch_add(1, std::memory_order_relaxed) == 0)
      context.pace->busy_streams.fetch_add(1, std::memory_order_relaxed);
    stream.open_start.store(bracket.start, std::memory_order_relaxed);
    stream.open.store(true, std::memory_order_release);
    if (context.pace->oldest_ns.load(std::memory_order_relaxed) == 0)
      context.pace->oldest_ns.store(bracket.opened_ns, std::memory_order_relaxed);
  }

  // Call after a wait between counting a bracket's first launch and the launch itself: the bracket starts now.
  void begin_again(StreamMeter& stream) {
    if (!stream.open.load() || stream.launches.load() != 1) return;
    const auto record = [&] { return port_.record(stream.bracket.start, stream.handle); };
    if (!good(*stream.context, twice(record), "cuEventRecord")) return;
    stream.bracket.opened_ns = stream.last_open_ns = port_.now_ns();
  }

  // Adds one launch of `function` to the open bracket; call before the launch.
  void count(StreamMeter& stream, std::uint64_t function, std::int64_t est_ns) {
    stream.spent_ns.store(stream.spent_ns.load(std::memory_order_relaxed) + est_ns, std::memory_order_relaxed);
    stream.launches.store(stream.launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    Bracket& bracket = stream.bracket;
    if (bracket.kept) {
      const std::int64_t sent_ns = stream.spent_ns.load(std::memory_order_relaxed) - est_ns;
      if (bracket.ordered) bracket.dry_if_before_ns = std::max(bracket.dry_if_before_ns, port_.now_ns() - sent_ns);
      bracket.kept = bracket.ordered = false;
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

  // Call after the launch returned.
  void launched(StreamMeter& stream, bool alone) {
    if (!stream.open.load(std::memory_order_relaxed)) return;
    if (stream.bracket.first_ns == 0) stream.bracket.first_ns = port_.now_ns();
    const bool probe = stream.thin_brackets != 0 && stream.thin_brackets % kProbeEvery == 0;
    if (probe) ++stream.thin_brackets;  // one is enough, however long its settlement takes
    if (alone || probe || stream.bracket.function_count == Bracket::kFunctions) close(stream, false);
  }

  // Lets one launch past the gate. Returns 0 if it is paid for and counted, with a bracket open unless the context
  // failed. Else returns how long to wait before asking again, with nothing of the stream open.
  std::int64_t pass(StreamMeter& stream, std::uint64_t function, std::int64_t est_ns, bool alone, bool chained,
                    std::int64_t asked_ns) {
    ContextMeter& context = *stream.context;
    if (alone || full(stream, chained) || stream.bracket.kept) close(stream, false);
    // A share of nearly the whole GPU cannot run far ahead, and idles whenever too little was sent: then a launch of
    // unknown length counts as short.
    const std::int64_t now_ns = port_.now_ns();
    const std::uint32_t rate_ppm =
        ledger::rate_now(*context.account, port_.ceiling_ppm(context), port_.burst_ppm(context), now_ns);
    // But with turns it counts as long as it was, once measured: kMaxUnsettledNs of what counts as 200 us may be fifteen
    // long kernels, which no gate takes back.
    const std::int64_t known_ns = alone ? estimates_.known_ns(function) : 0;
    const auto measured = [&] {
      return context.arbitrated && known_ns != 0 && (!estimates_.differs(function) || known_ns >= kLongestProofNs);
    };
    const bool counts_short =
        alone && rate_ppm >= kNearlyAllPpm && est_ns > kUnknownCommandNs && estimates_.uneven(function) && !measured();
    if (counts_short) est_ns = kUnknownCommandNs;
    // Of work that is measured launch by launch, send only as much as can be measured.
    const bool crowded = alone && stream.open.load(std::memory_order_relaxed);
    const bool counted = alone && !crowded;
    const bool bounded = counted && context.arbitrated && several_send(*context.account, context.seat.owner, now_ns);
    const bool idle = bounded && context.pace->busy_streams.load(std::memory_order_relaxed) == 0;
    // A rank that another one may spin for (charge_ahead() in multi_gpu_rules.hpp) passes whatever the others have
    // sent: refused, it would be charged again at each look.
    const bool ahead = idle && context.pace->credit_ns.load(std::memory_order_relaxed) >= est_ns;
    // A kernel that was never measured may be of any length, so send no more of these than are needed to measure it.
    const bool unknown = alone && known_ns == 0;
    const bool asks = bounded && !ahead;
    const std::int64_t share_wait_ns = asks ? wait_for_share_ns(*context.account, idle, now_ns, est_ns) : 0;
    const bool has_share_room = asks && share_wait_ns == 0;
    const bool unmeasured = unknown && context.pace->unknown.load(std::memory_order_relaxed) >=
                                           (context.arbitrated ? kMaxUnknownInTurns : kMaxUnknown);
    // The same for work that counts as shorter than it may be: its launches would pass as fast as time does. It may
    // follow a kernel that counts as long as it is.
    const bool unsettled = counts_short && context.arbitrated &&
                           context.pace->unsettled_ns.load(std::memory_order_relaxed) -
                                   context.pace->long_ns.load(std::memory_order_relaxed) >
                               kMaxUnsettledNs;
    const bool no_room = crowded || unmeasured || unsettled || share_wait_ns != 0;
    if (no_room || !take_credit(*context.pace, est_ns)) {
      // Short launches may pass next to long work: they are charged, and cost little.
      const bool is_long = counted && (unknown || known_ns >= kAloneNs);
      const std::int64_t share_due_ns =
          is_long ? ledger::sane_paid_ns(context.account->sent_until_ns.load(std::memory_order_relaxed)) : 0;
      Admission admission =
          admit(*context.account, *context.pace, rate_ppm, port_.now_ns(), asked_ns, est_ns, no_room,
                stream.due_ns.load(std::memory_order_relaxed), !unknown, context.arbitrated, share_due_ns);
      if (admission.wait_ns != 0 && share_wait_ns != 0) admission.wait_ns = std::min(admission.wait_ns, share_wait_ns);
      if (admission.wait_ns != 0 && stream.section_ns > 0) {
        stream.section_ns -= est_ns;
        admission = prove(context, est_ns, rate_ppm);
      }
      if (admission.wait_ns != 0 && !crowded && proves(stream, function)) admission = prove(context, est_ns, rate_ppm);
      if (admission.wait_ns != 0) {
        if (has_share_room) give_share_room(*context.account, est_ns);
        close(stream);
        // An uneven kernel's charge may come back at any time, and its settlement wakes no waiter.
        if (context.pace->busy_streams.load(std::memory_order_relaxed) == 0 || !estimates_.uneven(function))
          return admission.wait_ns;
        return std::min(admission.wait_ns, std::max(kUnevenWaitNs, (port_.now_ns() - asked_ns) / 2));
      }
      if (admission.debt) context.account->passed_in_debt.fetch_add(1, std::memory_order_relaxed);
      context.pace->credit_ns.fetch_add(admission.credit_ns - est_ns, std::memory_order_relaxed);
    }
    if (counted) count_in_share(*context.account, now_ns, est_ns, has_share_room);
    if (!stream.open.load()) open(stream);
    if (!stream.open.load()) {
      count_unmeasured(context, est_ns);
      return 0;
    }
    if (counted) {
      stream.bracket.room_ns += est_ns;
      context.account->in_flight_ns.fetch_add(est_ns, std::memory_order_relaxed);
    }
    if (unknown && !std::exchange(stream.bracket.unknown, true)) {
      if (context.pace->unknown.fetch_add(1, std::memory_order_relaxed) == 0) {
        stream.bracket.measures_ns = measuring_ns(context.arbitrated);
        add_to(context.account->unknown_until_ns, now_ns, stream.bracket.measures_ns);
      }
    }
    count(stream, function, est_ns);
    if (known_ns >= kLongestProofNs && !counts_short) stream.bracket.long_ns += est_ns;
    return 0;
  }

  // Returns whether this launch can be measured, unlike earlier ones: the same kernel still runs on its stream.
  bool proves(const StreamMeter& stream, std::uint64_t function) {
    const std::int64_t now_ns = port_.now_ns();
    const std::int64_t known_ns = estimates_.known_ns(function);
    if (known_ns > kLongestProofNs || stream.function.load(std::memory_order_relaxed) != function ||
        now_ns - stream.last_open_ns > known_ns - known_ns / 4 || !estimates_.wants_proof(function, now_ns))
      return false;
    estimates_.proof_asked(function, now_ns);
    return true;
  }
  // Lets it pass early, as debt.
  Admission prove(ContextMeter& context, std::int64_t est_ns, std::uint32_t rate_ppm) {
    const std::int64_t now_ns = port_.now_ns();
    ledger::charge_debt(*context.account, now_ns, est_ns, rate_ppm, catch_up_ns(*context.pace, rate_ppm, now_ns));
    context.pace->busy_until_ns.fetch_add(est_ns, std::memory_order_relaxed);
    return {.wait_ns = 0, .credit_ns = est_ns, .debt = false};
  }

  // Returns the estimate for the open bracket's launches.
  std::int64_t expected_ns(const StreamMeter& stream) const {
    return stream.open.load(std::memory_order_relaxed) ? stream.spent_ns.load(std::memory_order_relaxed) : 0;
  }
  bool full(const StreamMeter& stream, bool chained) const {
    return expected_ns(stream) >= (chained ? 4 : 1) * stream.quantum_ns;
  }

  // Returns whether the open bracket may end: its successor records two more events.
  bool has_room(const StreamMeter& stream) const {
    const std::uint32_t head = stream.head.load(std::memory_order_acquire);
    const std::uint32_t tail = stream.tail.load(std::memory_order_relaxed);
    const std::uint32_t closed = tail - head;
    if (is_behind_wait(stream) && tail - stream.wait_tail >= kMaxBehindWait) return false;
    if (closed < kMaxBehindStuck) return true;
    const std::int64_t oldest_ns = stream.closed[head % StreamMeter::kClosed].opened_ns;
    return closed < StreamMeter::kClosed && port_.now_ns() - oldest_ns < kPatienceNs &&
           stream.context->pace->unknown.load(std::memory_order_relaxed) == 0;
  }

  // Returns whether such a wait may still be in the stream's queue; a bracket that ended behind it means it is over.
  static bool is_behind_wait(const StreamMeter& stream) {
    return stream.behind_wait.load(std::memory_order_acquire) &&
           static_cast<std::int32_t>(stream.head.load(std::memory_order_acquire) - stream.wait_tail.load()) <= 0;
  }

  // Call when the program queues a wait that it may have to end itself. Under the stream's lock, with nothing open.
  static void waits(StreamMeter& stream) {
    stream.wait_tail.store(stream.tail.load(std::memory_order_relaxed), std::memory_order_relaxed);
    stream.behind_wait.store(true, std::memory_order_release);
  }

  // Records the end event and hands the bracket to the settler; gives back what it did not use. If the stream's queue
  // may lack room, the bracket stays open, and the settler ends it by estimate if no later call can.
  void close(StreamMeter& stream, bool orders = true) {
    if (!stream.open.load(std::memory_order_relaxed) || stream.id == kGoneStream) return;
    ContextMeter& context = *stream.context;
    Bracket& bracket = stream.bracket;
    bracket.ordered |= orders;
    bracket.kept = !has_room(stream);
    if (bracket.kept) return;
    const auto record = [&] { return port_.record(bracket.end, stream.handle); };
    if (!good(context, twice(record), "cuEventRecord")) return;
    bracket.closed_ns = port_.now_ns();
    if (bracket.first_ns == 0) bracket.first_ns = bracket.closed_ns;
    hand_over(stream);
  }

  // Takes an event from the context's pool or creates one. Returns false, with null, if the driver fails.
  bool take_event(ContextMeter& context, abi::CUevent& event) {
    if (context.pool_lock.try_lock()) {
      if (context.pooled != 0) event = context.pool[--context.pooled];
      context.pool_lock.unlock();
    }
    return event != nullptr || good(context, twice([&] { return port_.create(&event); }), "cuEventCreate");
  }

 protected:
  void hand_over(StreamMeter& stream) {
    const std::uint32_t tail = stream.tail.load(std::memory_order_relaxed);
    finish(stream);
    stream.closed[tail % StreamMeter::kClosed] = stream.bracket;
    stream.open.store(false, std::memory_order_relaxed);
    stream.tail.store(tail + 1, std::memory_order_release);
  }

  // Returns the ceiling that the account is priced at.
  std::uint32_t rate_ppm(const ContextMeter& context) {
    return ledger::rate_in_force(*context.account, port_.ceiling_ppm(context));
  }

  // An internal call may fail once by chance: repeats it at once.
  template <typename Call>
  static abi::CUresult twice(const Call& call) {
    const abi::CUresult result = call();
    const bool final = result == abi::CUDA_SUCCESS || result == abi::CUDA_ERROR_NOT_READY || gives_up_context(result);
    return final ? result : call();
  }

  // On failure, nothing of the context is measured until the next attempt (resume()).
  bool good(ContextMeter& context, abi::CUresult result, const char* call) {
    if (result == abi::CUDA_SUCCESS) return true;
    const std::int64_t now_ns = port_.now_ns();
    std::int64_t none = 0;
    context.failing_ns.compare_exchange_strong(none, now_ns);
    const std::int64_t rest_ns = std::clamp(2 * context.rest_ns.load(), kFirstRetryNs, kLastRetryNs);
    context.rest_ns.store(rest_ns);
    context.retry_ns.store(gives_up_context(result) ? kNeverMetered : now_ns + rest_ns);
    context.failure.store(result);
    context.failed_call.store(call);
    if (!context.failed.exchange(true) && gives_up_context(result)) port_.failed(context, result, call);
    return false;
  }
  // A bracket of the context was measured.
  static void measures_again(ContextMeter& context) {
    if (context.failing_ns.load(std::memory_order_relaxed) == 0) return;
    context.failing_ns.store(0);
    context.rest_ns.store(0);
    context.failure_told.store(false);
  }

  // Counts a launch without a bracket, because the context has just failed.
  static void count_unmeasured(ContextMeter& context, std::int64_t est_ns) {
    context.account->held_ns.fetch_add(static_cast<std::uint64_t>(est_ns), std::memory_order_relaxed);
    context.account->estimated_ns.fetch_add(static_cast<std::uint64_t>(est_ns), std::memory_order_relaxed);
    if (context.launches != nullptr) context.launches->fetch_add(1, std::memory_order_relaxed);
    context.account->delays.prompt.fetch_add(1, std::memory_order_relaxed);
  }

  // For a bracket that was not opened.
  void drop_events(Bracket& bracket) {
    if (bracket.start != nullptr) port_.destroy(bracket.start);
    if (bracket.end != nullptr) port_.destroy(bracket.end);
    bracket.start = bracket.end = nullptr;
  }

  // Ends the bracket; with the process's last one, gives back what was charged and not used.
  void finish(StreamMeter& stream) {
    Bracket& bracket = stream.bracket;
    bracket.launches = stream.launches.load(std::memory_order_relaxed);
    stream.finished_launches += bracket.launches;
    bracket.charged_ns = bracket.expected_ns = stream.spent_ns.load(std::memory_order_relaxed);
    ContextMeter& context = *stream.context;
    context.pace->unsettled_ns.fetch_add(bracket.expected_ns, std::memory_order_relaxed);
    if (bracket.long_ns != 0) context.pace->long_ns.fetch_add(bracket.long_ns, std::memory_order_relaxed);
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
