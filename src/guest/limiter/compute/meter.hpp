// The settler's part of the meter: one thread per process, which only queries, settles the brackets that launching
// threads closed (launch_meter.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "guest/limiter/compute/call_time.hpp"
#include "guest/limiter/compute/fair_part.hpp"
#include "guest/limiter/compute/launch_meter.hpp"
#include "guest/limiter/compute/own_length.hpp"
#include "guest/limiter/compute/undivided.hpp"

namespace headgate::limiter {

inline constexpr std::int64_t kNothingOpen = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kLookNs = 50'000;
inline constexpr std::int64_t kRunningNs = 2'000'000;  // charge interval of a long command while it runs
inline constexpr std::int64_t kIdleNs = 200'000;
inline constexpr std::int64_t kUnaskedNs = 5'000'000;  // quiet time of a stream that cannot be queried
inline constexpr std::int64_t kLookBackNs = 2'000'000;
inline constexpr std::int64_t kLookAroundNs = 5'000'000;   // how often to look for other shares' work, if bursting
inline constexpr std::int64_t kAloneTrustNs = 20'000'000;  // how long a look that saw none counts
inline constexpr std::int64_t kBackToBackNs = 250;         // less than one step of the GPU's event clock
inline constexpr std::int64_t kLostProcessorNs = 50'000;   // hardly a driver call takes a thread so long
inline constexpr std::int64_t kShortCallNs = 5'000;        // a kernel's launch
inline constexpr std::int64_t kThinTailNs = 20'000;
inline constexpr std::int64_t kAnchorNs = 4'000'000'000;
inline constexpr std::int64_t kReleasedNs = 3'000'000;  // what ends so soon after a debt launch had waited for it

template <typename Port>
class Meter : public LaunchMeter<Port> {
 public:
  using LaunchMeter<Port>::LaunchMeter;

  // Call when the context or the process ends: no queries are possible. Settles what was left by estimate, as far as it
  // can have run until then. Under the settler's lock.
  void forget(StreamMeter& stream, std::int64_t until_ns) {
    std::int64_t from_ns = 0;
    for (std::uint32_t i = stream.head.load(); i != stream.tail.load(); ++i) {
      from_ns = settle_unmeasured(stream, stream.closed[i % StreamMeter::kClosed], from_ns, until_ns);
      stream.head.store(i + 1, std::memory_order_release);
    }
    end_unmeasured(stream, from_ns, until_ns);
    stream.used.store(false, std::memory_order_release);
  }
  // Call after the context failed: settles what was sent by estimate, and allows launches on the stream again. Under
  // the settler's lock and the stream's.
  void abandon(StreamMeter& stream, std::int64_t until_ns) {
    forget(stream, until_ns);
    stream.last_end_ns = stream.looks = stream.seen_ns = 0;
    stream.covered_open = nullptr;
    stream.used.store(true, std::memory_order_release);
  }
  // Call when no stream of the context has anything left: restarts its times.
  void resume(ContextMeter& context) {
    if (context.anchor != nullptr) give_event(context, context.anchor);
    context.anchor = nullptr;
    context.gpu_base_ns = context.last_end_ns = 0;
    context.clock = {};
    context.failed.store(false);
  }
  // Call at the process's end: measures what has ended, and settles the rest as above.
  void settle_last(StreamMeter& stream, std::int64_t now_ns) {
    for (std::uint32_t i = stream.head.load(); i != stream.tail.load() && !stream.context->failed.load(); ++i) {
      Bracket& bracket = stream.closed[i % StreamMeter::kClosed];
      if (port_.query(bracket.end) != abi::CUDA_SUCCESS || !settle_bracket(stream, bracket, now_ns)) break;
      stream.head.store(i + 1, std::memory_order_release);
    }
    forget(stream, now_ns);
  }
  void forget_events(ContextMeter& context) {
    if (context.anchor != nullptr) port_.destroy(context.anchor);
    while (context.pooled != 0) port_.destroy(context.pool[--context.pooled]);
    context.anchor = nullptr;
  }

  // Settles what has ended on these streams. Returns when to look again; kNothingOpen: when a bracket is closed.
  std::int64_t settle(std::span<StreamMeter> streams, std::int64_t now_ns) {
    std::int64_t next = kNothingOpen;
    for (Oldest& oldest : oldest_) oldest = {};
    entered_ = nullptr;
    for (StreamMeter& stream : streams) {
      if (!stream.used.load(std::memory_order_acquire) || stream.context->failed.load()) continue;
      if (entered_ != stream.context) port_.enter(*(entered_ = stream.context));
      next = std::min(next, settle_stream(stream, now_ns));
      look_around(*stream.context, now_ns);
      next = std::min(next, look_back(*stream.context, now_ns));
      learn_undivided(estimates_, *stream.context, now_ns);
      note_oldest(stream);
    }
    for (const Oldest& oldest : oldest_) {
      if (oldest.pace == nullptr) continue;
      oldest.pace->oldest_ns.store(oldest.ns == kNothingOpen ? 0 : oldest.ns, std::memory_order_relaxed);
      // However long others had the GPU meanwhile, only unsettled work is ahead.
      if (oldest.pace->open.load(std::memory_order_relaxed) == 0)
        lower(oldest.pace->busy_until_ns,
              now_ns + slowed_ns(*oldest.pace,
                                 std::max<std::int64_t>(0, oldest.pace->unsettled_ns.load(std::memory_order_relaxed))));
    }
    return next;
  }

  std::int64_t settle_stream(StreamMeter& stream, std::int64_t now_ns) {
    while (true) {
      const std::uint32_t head = stream.head.load(std::memory_order_relaxed);
      if (head == stream.tail.load(std::memory_order_acquire)) return look_at_open(stream, now_ns);
      Bracket& bracket = stream.closed[head % StreamMeter::kClosed];
      if (stream.looks == 0) {
        stream.looks = 1;
        take_over(stream, bracket);
        const std::int64_t expected_ns =
            uneven(estimates_, bracket) ? 0 : std::min(bracket.expected_ns, kRunningNs + kLookNs);
        stream.next_look_ns = std::max(bracket.opened_ns + expected_ns, bracket.closed_ns) + 10'000;
      }
      // Work that waited for the share's turn may end soon, even if it was checked rarely meanwhile.
      const std::int64_t turn_ns = stream.context->pace->turn_began_ns.load(std::memory_order_relaxed);
      if (std::exchange(stream.turn_ns, turn_ns) != turn_ns && bracket.expected_ns > kInFlightNs / 2) {
        stream.looks = 1;
        stream.next_look_ns = std::min(stream.next_look_ns, now_ns);
      }
      if (now_ns < stream.next_look_ns) return stream.next_look_ns;
      const abi::CUresult answer = twice([&] { return port_.query(bracket.end); });
      if (answer == abi::CUDA_ERROR_NOT_READY) {
        stream.not_ready_ns = now_ns;
        charge_running(stream, bracket, now_ns);
        if (!uneven(estimates_, bracket) && stream.context->arbitrated)
          expect_rest(*stream.context->pace, bracket.opened_ns, bracket.expected_ns, now_ns);
        return stream.next_look_ns = now_ns + pace_ns(stream, bracket, now_ns);
      }
      if (!good(*stream.context, answer, "cuEventQuery")) return kNothingOpen;
      if (!settle_bracket(stream, bracket, port_.now_ns())) return kNothingOpen;
      stream.looks = 0;
      stream.head.store(head + 1, std::memory_order_release);
    }
  }

  // Measures a copy between these events, which have fired, the first submitted at sent_ns. Without `end`, the copy was
  // done at ended_ns.
  void settle_copy(ContextMeter& context, abi::CUevent start, abi::CUevent end, std::int64_t sent_ns,
                   std::int64_t ended_ns) {
    std::int64_t from = 0;
    float length_ms = 0;
    if (context.anchor == nullptr) {
      context.anchor = start;
      context.clock.observe(context.gpu_base_ns, sent_ns);
    }
    if (!gpu_ns(context, start, from)) return;
    const std::int64_t from_ns = context.clock.host_ns(from);
    if (end != nullptr) {
      const auto measure = [&] { return port_.elapsed(&length_ms, start, end); };
      if (!good(context, twice(measure), "cuEventElapsedTime")) return;
      ended_ns = from_ns + static_cast<std::int64_t>(static_cast<double>(length_ms) * 1e6 + 0.5);
    }
    const std::int64_t fresh_ns = context.account->copies.mark(from_ns, ended_ns);
    context.account->copy_ns.fetch_add(static_cast<std::uint64_t>(fresh_ns), std::memory_order_relaxed);
  }

  void give_event(ContextMeter& context, abi::CUevent event) {
    if (!context.pool_lock.try_lock()) return port_.destroy(event);
    const bool room = context.pooled < ContextMeter::kPool;
    if (room) context.pool[context.pooled++] = event;
    context.pool_lock.unlock();
    if (!room) port_.destroy(event);
  }

 private:
  using LaunchMeter<Port>::estimates_, LaunchMeter<Port>::finish, LaunchMeter<Port>::good,
      LaunchMeter<Port>::measures_again, LaunchMeter<Port>::port_, LaunchMeter<Port>::rate_ppm,
      LaunchMeter<Port>::twice;

  struct Oldest {
    Pace* pace = nullptr;
    std::int64_t ns = kNothingOpen;
  };

  void note_oldest(StreamMeter& stream) {
    stream.due_ns.store(queue_due_ns(stream, estimates_), std::memory_order_relaxed);
    Oldest* mine = nullptr;
    for (Oldest& oldest : oldest_) {
      if (oldest.pace != nullptr && oldest.pace != stream.context->pace) continue;
      mine = &oldest;
      break;
    }
    if (mine == nullptr) return;
    mine->pace = stream.context->pace;
    const std::uint32_t head = stream.head.load(std::memory_order_relaxed);
    if (head != stream.tail.load(std::memory_order_acquire))
      mine->ns = std::min(mine->ns, stream.closed[head % StreamMeter::kClosed].opened_ns);
    else if (stream.open.load(std::memory_order_acquire)) mine->ns = std::min(mine->ns, stream.last_open_ns);
  }

  // Returns when to query running work again: at the charge interval, in turns the sooner the nearer its end should be,
  // for another share may wait for that. After it soon, but a stuck kernel is not queried 20,000 times a second.
  std::int64_t pace_ns(StreamMeter& stream, const Bracket& bracket, std::int64_t now_ns) const {
    const bool is_long = bracket.expected_ns >= kRunningNs && !uneven(estimates_, bracket),
               in_turns = stream.context->arbitrated;
    const std::int64_t part = in_turns ? 4 : 1;
    const std::int64_t due_ns = bracket.opened_ns + bracket.expected_ns;
    if (is_long && due_ns - now_ns > kLookNs) return std::clamp((due_ns - now_ns) / part, kLookNs, kRunningNs);
    const std::int64_t looks = stream.looks++;
    const std::int64_t close_looks = in_turns && is_long ? 200 : 40;
    return looks < close_looks ? kLookNs : looks < close_looks + 160 ? 5 * kLookNs : 20 * kLookNs;
  }

  // Computes event time in ns since the context's first anchor.
  bool gpu_ns(ContextMeter& context, abi::CUevent event, std::int64_t& ns) {
    if (context.anchor == nullptr) {
      ns = context.gpu_base_ns;
      return true;
    }
    float ms = 0;
    const auto measure = [&] { return port_.elapsed(&ms, context.anchor, event); };
    if (!good(context, twice(measure), "cuEventElapsedTime")) return false;
    ns = context.gpu_base_ns + static_cast<std::int64_t>(static_cast<double>(ms) * 1e6 + 0.5);
    return true;
  }

  bool settle_bracket(StreamMeter& stream, Bracket& bracket, std::int64_t seen_ns) {
    ContextMeter& context = *stream.context;
    std::int64_t start = 0;
    float length_ms = 0;
    if (!gpu_ns(context, bracket.start, start)) return false;
    const auto measure = [&] { return port_.elapsed(&length_ms, bracket.start, bracket.end); };
    if (!good(context, twice(measure), "cuEventElapsedTime")) return false;
    measures_again(context);
    std::int64_t length = static_cast<std::int64_t>(static_cast<double>(length_ms) * 1e6 + 0.5);
    const std::int64_t end = start + length;
    if (bracket.start != context.anchor) context.clock.observe(start, bracket.opened_ns);
    context.clock.bound(end, seen_ns);
    const std::int64_t not_ready_ns = std::exchange(stream.not_ready_ns, 0);
    if (context.arbitrated && not_ready_ns != 0 && bracket.launches == 1)
      context.clock.observe(end, not_ready_ns - kVisibleNs);
    const std::int64_t start_event_ns = context.clock.host_ns(start);
    const bool single = bracket.function_count == 1;
    const bool idle = start - stream.last_end_ns > kBackToBackNs || stream.last_end_ns == 0;
    // On an idle stream the start event fired before its kernel was submitted. If other work kept the GPU busy, it
    // fired later, and its kernel may have been queued by then.
    const std::int64_t waited = context.clock.host_ns(start) - bracket.opened_ns;
    const std::int64_t gap = bracket.first_ns - bracket.opened_ns;
    const std::int64_t left = was_sent_before(estimates_, bracket, start_event_ns) ? 0
                              : idle && waited < kPromptNs                         ? gap
                                                                                   : gap - waited;
    // It is unknown when during a long call the GPU got the work. Concurrent streams do not measure a single kernel.
    const bool sole = single && context.pace->busy_streams.load(std::memory_order_relaxed) <= 1;
    const std::int64_t call_ns = sole ? estimates_.learn_call(bracket.functions[0], gap) : 0;
    const bool doubtful = call_ns > kShortCallNs && left > length / kDoubtParts;
    if (single && idle) estimates_.doubt(bracket.functions[0], doubtful ? left : 0);
    const std::int64_t proven_ns = doubtful ? estimates_.proven_ns(bracket.functions[0]) : 0;
    bracket.doubtful = proven_ns != 0;
    bool assumed = false;
    std::int64_t late = idle ? left : 0;
    if (bracket.doubtful) {
      late = std::min(left, length - proven_ns * bracket.launches);
    } else if (idle) {
      // A thread descheduled in between was so before it sent the kernel, or after. If the kernel took less than
      // expected including all that time, it did not take longer.
      assumed = gap > kLostProcessorNs && late > length - bracket.expected_ns && length >= bracket.expected_ns;
      if (assumed && doubtful) estimates_.suppose(bracket.functions[0], (length - late / 2) / bracket.launches);
      if (assumed) late = length - bracket.expected_ns;
    } else if (single && !doubtful) {
      estimates_.prove(bracket.functions[0], length / std::max(1u, bracket.launches));
      late = std::clamp<std::int64_t>(length - bracket.expected_ns, 0,
                                      may_be_late_ns(estimates_, context, bracket, start_event_ns));
    }
    late = std::clamp<std::int64_t>(late, 0, length);
    start += late;
    length -= late;
    stream.last_end_ns = end;
    const std::int64_t own_ns = own_length_ns(context, start, end, bracket.opened_ns);
    const std::int64_t host_end = context.clock.host_ns(end);
    ended(*context.pace, host_end);
    const std::int64_t launching = launching_ns(bracket, start_event_ns);
    const bool tail_waited = host_end - bracket.closed_ns < kThinTailNs;
    // Or it was stopped, whatever kept the GPU busy at the end.
    const bool still = stood_still(estimates_, bracket, start_event_ns);
    const bool slow_host = 2 * launching > length && (still || (bracket.launches > 1 && tail_waited));
    const bool thin = assumed || holds_idle_time(bracket, start_event_ns) || slow_host;
    // Should its next call take as long, such is the call: it blocks while the GPU works.
    if (still && slow_host && single) estimates_.suppose(bracket.functions[0], length - launching);
    const Begin begin{.event_ns = start_event_ns, .late_ns = late, .own_ns = own_ns, .follows = !idle && late == 0};
    settle_span(stream, bracket, context.clock.host_ns(start), length, begin, thin);
    take_anchor(context, bracket);
    return true;
  }

  // When a bracket's start event fired, how much later its work was there, its length without the context's other
  // streams (own_length_ns()), and whether the stream's last work ended then.
  struct Begin {
    std::int64_t event_ns, late_ns, own_ns;
    bool follows;
  };
  void settle_span(StreamMeter& stream, Bracket& bracket, std::int64_t from, std::int64_t length, const Begin& begin,
                   bool thin) {
    ContextMeter& context = *stream.context;
    const std::int64_t marked_from = begin.follows ? std::min(from, stream.marked_until_ns) : from;
    stream.marked_until_ns = thin ? kNothingOpen : from + length;
    std::int64_t charged_length = length;
    if (thin) {
      charged_length = std::min(length, bracket.expected_ns);
      ++stream.thin_brackets;
    } else if (bracket.launches > 1) {
      stream.thin_brackets = 0;
    } else if (stream.thin_brackets != 0) {
      ++stream.thin_brackets;
    }
    // Only with its context's own work it can have run at the same time.
    const bool apart =
        !thin && context.seat.page != nullptr && bracket.covered_until_ns == 0 && context.marked_until_ns <= from;
    std::int64_t fresh = hold(context, {marked_from, from + charged_length, begin.event_ns, !thin},
                              std::max(from, bracket.covered_until_ns), apart);
    book(context, fresh, thin || bracket.doubtful);
    fresh += bracket.fresh_ns;
    const Span span = span_of(*context.pace);
    const bool by_length = span.cycle_ns != 0 && is_known(estimates_, bracket);
    const std::int64_t new_ns = fresh, others = others_ns(estimates_, context, bracket, length);
    if (by_length) fresh = count_as_expected(estimates_, context, bracket, span, charged_length, fresh);
    ledger::correct(*context.account, fresh - bracket.charged_ns, rate_ppm(context));
    give_room(*context.pace, bracket.expected_ns - fresh);
    // How long a kernel waited for another says nothing about its next launch. One whose length is known, and that held
    // the GPU for many times that, did no work of the share meanwhile.
    const std::int64_t last_debt_ns =
        ledger::sane_paid_ns(context.account->last_debt_ns.load(std::memory_order_relaxed));
    const std::int64_t after_debt_ns = from + length - last_debt_ns;
    const bool released = length >= kPatienceNs && after_debt_ns > -ledger::kMapMarginNs && after_debt_ns < kReleasedNs;
    const bool waited = released && !bracket.unknown && fresh >= 8 * bracket.expected_ns;
    settled_one(stream, bracket, fresh, waited ? bracket.expected_ns : fresh);
    // But then its next launch counts as short: it may wait for another again.
    if (released && !thin && bracket.function_count == 1) estimates_.suppose(bracket.functions[0], kUnknownCommandNs);
    if (thin || released) return;
    learn_later(estimates_, context, bracket, from, length);
    std::int64_t part = fair_part(context, length - others, new_ns, length, port_.now_ns());
    const bool own = begin.own_ns != 0 && bracket.launches == 1 && !is_beside_processes(context, bracket);
    if (own) part = std::min(begin.own_ns, length - others);
    if (by_length ? seems_longer(estimates_, context, bracket, span, from, length, new_ns, part)
                  : stretched(estimates_, context, bracket, begin.event_ns, part))
      return;
    // When a launch on an idle stream began is known to its call's length.
    const bool lone = context.arbitrated && !by_length && bracket.launches == 1 &&
                      begin.late_ns < length / kDoubtParts && (own || !is_beside_others(context, bracket));
    // Applies the same ratio to each kernel, relative to its estimate at launch: overlapping corrections must not add
    // up.
    for (std::uint32_t i = 0; i < bracket.function_count; ++i) {
      const double ratio =
          static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, bracket.expected_ns));
      const std::int64_t measured =
          bracket.function_count == 1 ? part / std::max(1u, bracket.launches)
                                      : static_cast<std::int64_t>(static_cast<double>(bracket.estimates_ns[i]) * ratio);
      if (lone) estimates_.learn_lone(bracket.functions[i], measured);
      else estimates_.learn(bracket.functions[i], measured);
    }
    // The next launch of this kernel may already wait at a gate.
    std::int64_t unknown_ns = 0;
    const std::int64_t known_ns = estimates_.known_ns(bracket.functions[0]);
    context.account->kernel_ns.compare_exchange_strong(unknown_ns, known_ns, std::memory_order_relaxed);
  }

  // Returns how much of that time the share has not been charged for. What the bracket itself covered may have left the
  // ring and would count as new.
  std::int64_t hold(ContextMeter& context, const ledger::Work& work, std::int64_t covered_until_ns = 0,
                    bool apart = false) {
    if (context.seat.page != nullptr) {
      ledger::mark_seat(context.seat, work, port_.now_ns());
      context.marked_until_ns = std::max(context.marked_until_ns, work.to_ns);
    }
    const std::int64_t from_ns = std::max(work.from_ns, covered_until_ns);
    return apart ? ledger::cover_apart(*context.account, from_ns, work.to_ns)
                 : ledger::cover(*context.account, from_ns, work.to_ns);
  }

  // Decides whether the share may burst. It may not if this is unknown: without a page of the GPU, or with a board from
  // a daemon that may have died.
  void look_around(ContextMeter& context, std::int64_t now_ns) {
    const std::uint32_t ceiling_ppm = port_.ceiling_ppm(context), burst_ppm = port_.burst_ppm(context);
    if (burst_ppm <= ceiling_ppm || context.seat.page == nullptr || context.seat.board != nullptr) return;
    if (now_ns - context.looked_around_ns < kLookAroundNs) return;
    context.looked_around_ns = now_ns;
    const std::int64_t until_ns = ledger::others_at_work(context.seat, now_ns) ? 0 : now_ns + kAloneTrustNs;
    context.account->alone_until_ns.store(until_ns, std::memory_order_relaxed);
    ledger::rate_now(*context.account, ceiling_ppm, burst_ppm, now_ns);
  }

  // Gives back time that other shares had but was charged because they had work at once. Returns when to look again.
  std::int64_t look_back(ContextMeter& context, std::int64_t now_ns) {
    if (context.marked_until_ns == 0) return kNothingOpen;
    const std::int64_t last_ns = context.marked_until_ns + ledger::replay_lag_ns(context.seat) + kQuantumNs;
    if (now_ns < last_ns && now_ns - context.looked_back_ns < kLookBackNs) return last_ns;
    context.looked_back_ns = now_ns;
    const bool last = now_ns >= last_ns;
    if (last) context.marked_until_ns = 0;
    const std::int64_t theirs_ns = ledger::neighbours_ns(context.seat, *context.account, now_ns, last);
    // Their time slices delayed this share, as their turns do.
    if (theirs_ns > 0) context.pace->set_turn_awaited(now_ns);
    context.account->held_ns.fetch_sub(static_cast<std::uint64_t>(theirs_ns), std::memory_order_relaxed);
    context.account->neighbours_ns.fetch_add(static_cast<std::uint64_t>(theirs_ns), std::memory_order_relaxed);
    ledger::correct(*context.account, -theirs_ns, rate_ppm(context));
    return now_ns < last_ns ? last_ns : kNothingOpen;
  }

  // Only the settler writes it, except for a stream being destroyed: a lost update costs the arbiter a short pause.
  static void ended(Pace& pace, std::int64_t end_ns) {
    if (end_ns > pace.ended_ns.load(std::memory_order_relaxed)) pace.ended_ns.store(end_ns, std::memory_order_relaxed);
  }

  static void book(ContextMeter& context, std::int64_t fresh, bool estimated) {
    context.account->held_ns.fetch_add(static_cast<std::uint64_t>(fresh), std::memory_order_relaxed);
    if (estimated)
      context.account->estimated_ns.fetch_add(static_cast<std::uint64_t>(fresh), std::memory_order_relaxed);
  }

  // Times count from an event at most 4 s old, because ElapsedTime returns a float of milliseconds.
  void take_anchor(ContextMeter& context, Bracket& bracket) {
    give_event(context, bracket.end);
    std::int64_t at = 0;
    if (context.anchor == bracket.start) return;
    if (context.anchor == nullptr) {
      context.anchor = bracket.start;
      return;
    }
    if (gpu_ns(context, bracket.start, at) && at - context.gpu_base_ns > kAnchorNs) {
      give_event(context, context.anchor);
      context.anchor = bracket.start;
      context.gpu_base_ns = at;
      return;
    }
    give_event(context, bracket.start);
  }

  // Charges a command that exceeds its estimate while it runs.
  void charge_running(StreamMeter& stream, Bracket& bracket, std::int64_t now_ns) {
    ContextMeter& context = *stream.context;
    const std::int64_t settled_to = now_ns - kLookNs;
    // Charge known long work from its start, before replays of other shares look for its marks. If the estimate says
    // little, running work must not look like time in which the next may start.
    const bool is_long = bracket.expected_ns >= kRunningNs;
    const std::int64_t step_ns = uneven(estimates_, bracket) ? 2 * kLookNs : is_long ? kRunningNs : kQuantumNs;
    const std::int64_t due_ns = bracket.opened_ns + (is_long ? 0 : bracket.expected_ns);
    if (settled_to < std::max(due_ns, bracket.covered_until_ns) + step_ns) return;
    const abi::CUresult started = twice([&] { return port_.query(bracket.start); });
    if (started == abi::CUDA_ERROR_NOT_READY) return;
    if (!good(context, started, "cuEventQuery")) return;
    // The context's first bracket may be its longest.
    if (context.anchor == nullptr) {
      context.anchor = bracket.start;
      context.clock.observe(context.gpu_base_ns, bracket.opened_ns);
    }
    std::int64_t start = 0;
    if (!gpu_ns(context, bracket.start, start)) return;
    const std::int64_t start_event_ns = context.clock.host_ns(start);
    if (context.arbitrated && (bracket.launches > 1 || bracket.expected_ns >= 2 * kRunningNs) &&
        !uneven(estimates_, bracket) && !is_beside_others(context, bracket))
      count_from_start(*context.pace, start_event_ns);
    // What was charged while its launches went on runs on: a late charge may be for time that the ring has forgotten.
    if (bracket.covered_until_ns == 0 &&
        (stood_still(estimates_, bracket, start_event_ns) || holds_idle_time(bracket, start_event_ns)))
      return;
    const std::int64_t from =
        was_sent_before(estimates_, bracket, start_event_ns)
            ? start_event_ns
            : std::max(start_event_ns + may_be_late_ns(estimates_, context, bracket, start_event_ns), bracket.first_ns);
    const std::int64_t fresh = hold(context, {std::max(from, bracket.covered_until_ns), settled_to,
                                              bracket.covered_until_ns == 0 ? start_event_ns : 0});
    if (is_wanted(estimates_, context, bracket, from))
      note_others(context, bracket.others, from, settled_to, kReplayStepNs);
    bracket.covered_until_ns = settled_to;
    bracket.fresh_ns += fresh;
    book(context, fresh, false);
    const std::int64_t extra = std::max<std::int64_t>(0, bracket.fresh_ns - bracket.charged_ns);
    ledger::correct(*context.account, extra, rate_ppm(context));
    bracket.charged_ns += extra;
  }

  // Charges a launch during its call, if the call blocks while the GPU works on it. Its usual call time tells that;
  // else the thread may have been descheduled before it sent anything. Returns when to look again.
  std::int64_t charge_call(StreamMeter& stream, std::int64_t now_ns) {
    note_open(stream, now_ns);
    const std::int64_t usual_ns = estimates_.call_ns(stream.function.load(std::memory_order_relaxed));
    if (usual_ns < kStoppedNs || now_ns - stream.open_seen_ns > 4 * usual_ns) return now_ns + kIdleNs;
    return charge_open(stream, now_ns, 0, 0);
  }
  // A bracket that could not be closed runs on while its thread waits: charged meanwhile, for other shares' replays
  // look for its marks. Under the stream's lock. Returns when to look again.
  std::int64_t charge_kept(StreamMeter& stream, std::int64_t now_ns) {
    note_open(stream, now_ns);
    return charge_open(stream, now_ns, stream.bracket.first_ns, stream.bracket.dry_if_before_ns);
  }
  static void note_open(StreamMeter& stream, std::int64_t now_ns) {
    const abi::CUevent start_event = stream.open_start.load(std::memory_order_relaxed);
    if (stream.covered_open == start_event) return;
    stream.covered_open = start_event;
    stream.open_seen_ns = now_ns;
    stream.open_covered_until_ns = stream.open_fresh_ns = 0;
  }
  // The GPU works on the open bracket, of which the first launch was sent at sent_ns. If it began before began_ns, that
  // is not known.
  std::int64_t charge_open(StreamMeter& stream, std::int64_t now_ns, std::int64_t sent_ns, std::int64_t began_ns) {
    ContextMeter& context = *stream.context;
    std::int64_t start = 0;
    if (context.anchor == nullptr) return now_ns + kIdleNs;
    if (port_.query(stream.covered_open) != abi::CUDA_SUCCESS || !gpu_ns(context, stream.covered_open, start))
      return now_ns + kRunningNs;
    const std::int64_t start_event_ns = context.clock.host_ns(start), to_ns = now_ns - kLookNs;
    if (start_event_ns < began_ns) return now_ns + kRunningNs;
    const bool first = stream.open_covered_until_ns == 0;
    const std::int64_t from_ns = first ? std::max(start_event_ns, sent_ns) : stream.open_covered_until_ns;
    if (to_ns > from_ns) {
      const std::int64_t fresh_ns = hold(context, {from_ns, to_ns, first ? start_event_ns : 0});
      stream.open_covered_until_ns = to_ns;
      stream.open_fresh_ns += fresh_ns;
      book(context, fresh_ns, false);
    }
    return now_ns + kRunningNs;
  }
  // A closed bracket takes over what was charged for its call. Its event may soon belong to another bracket.
  static void take_over(StreamMeter& stream, Bracket& bracket) {
    if (stream.covered_open == nullptr || stream.covered_open != bracket.start) return;
    bracket.covered_until_ns = stream.open_covered_until_ns;
    bracket.fresh_ns = stream.open_fresh_ns;
    stream.covered_open = nullptr;
  }

  // Settles a bracket by estimate, without querying the GPU: from its launch, or the end of what came before. Returns
  // when it ended.
  std::int64_t settle_unmeasured(StreamMeter& stream, Bracket& bracket, std::int64_t from_ns, std::int64_t until_ns) {
    ContextMeter& context = *stream.context;
    const std::int64_t from = std::max({from_ns, bracket.first_ns, bracket.covered_until_ns});
    const std::int64_t to =
        std::max(from, std::min(until_ns, from + std::max<std::int64_t>(0, bracket.expected_ns - bracket.fresh_ns)));
    std::int64_t fresh = hold(context, {from, to});
    book(context, fresh, true);
    fresh += bracket.fresh_ns;
    ledger::correct(*context.account, fresh - bracket.charged_ns, rate_ppm(context));
    if (bracket.start != context.anchor) give_event(context, bracket.start);
    give_event(context, bracket.end);
    ended(*context.pace, to);
    settled_one(stream, bracket, fresh, fresh);
    return to;
  }
  void end_unmeasured(StreamMeter& stream, std::int64_t from_ns, std::int64_t until_ns) {
    if (!stream.open.load(std::memory_order_relaxed)) return;
    finish(stream);
    take_over(stream, stream.bracket);
    settle_unmeasured(stream, stream.bracket, from_ns, until_ns);
    stream.open.store(false, std::memory_order_release);
  }

  // Ends a bracket that no call closes, as an estimate, once the host finds the stream idle.
  std::int64_t look_at_open(StreamMeter& stream, std::int64_t now_ns) {
    if (!stream.open.load(std::memory_order_acquire)) return kNothingOpen;
    const std::uint32_t launches = stream.launches.load(std::memory_order_relaxed);
    if (launches != stream.seen_launches || stream.seen_ns == 0) {
      stream.seen_launches = launches;
      stream.seen_ns = now_ns;
      return now_ns + kIdleNs;
    }
    // Another thread's default stream cannot be named here, nor can a destroyed stream.
    const bool unasked = stream.handle == abi::stream_per_thread() || stream.id == kGoneStream;
    const std::int64_t quiet_ns = unasked ? kUnaskedNs + stream.spent_ns.load(std::memory_order_relaxed) : kIdleNs;
    if (now_ns - stream.seen_ns < quiet_ns) return stream.seen_ns + quiet_ns;
    if (!stream.lock.try_lock()) return charge_call(stream, now_ns);
    const abi::CUresult answer = !stream.open.load() ? abi::CUDA_ERROR_NOT_READY
                                 : unasked           ? abi::CUDA_SUCCESS
                                           : twice([&] { return port_.idle(stream.handle, *stream.context); });
    if (answer == abi::CUDA_SUCCESS) {
      // Time of the bracket before it is neither charged twice nor counted here.
      const std::int64_t from_ns = stream.last_end_ns == 0 ? 0 : stream.context->clock.host_ns(stream.last_end_ns);
      end_unmeasured(stream, from_ns, now_ns);
    } else if (answer != abi::CUDA_ERROR_NOT_READY) {
      good(*stream.context, answer, "cuStreamQuery");
    } else if (stream.open.load() && stream.bracket.kept) {
      charge_kept(stream, now_ns);
    }
    stream.lock.unlock();
    stream.seen_ns = now_ns;
    return stream.open.load() ? now_ns + kIdleNs : kNothingOpen;
  }

  ContextMeter* entered_ = nullptr;  // the context that the settler has made current
  std::array<Oldest, ledger::kMaxDevices> oldest_{};
};

}  // namespace headgate::limiter
