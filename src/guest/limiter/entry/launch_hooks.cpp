// Every call that puts work on the GPU passes the gate here.
#include <algorithm>

#include "guest/limiter/compute/gate_wait.hpp"
#include "guest/limiter/compute/multi_gpu_gate.hpp"
#include "guest/limiter/compute/stream_table.hpp"
#include "guest/limiter/compute/turns.hpp"
#include "guest/limiter/memory/graph_memory.hpp"
#include "guest/limiter/memory/refusal.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/stream/captures.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;
namespace ledger = headgate::ledger;

namespace {

constexpr std::int64_t kUnboundQuantumNs = 4'000'000;

struct Launch {
  std::uint64_t function;  // key of the estimate: a kernel or a graph
  CUstream stream;
  bool chained = false;  // carries the programmatic-dependent-launch attribute
};

std::uint64_t key(const void* function) { return reinterpret_cast<std::uintptr_t>(function); }

CUstream per_thread(CUstream stream) { return stream == nullptr ? stream_per_thread() : stream; }

// Returns how long a launch of a paused share must still wait. A launch passes only if work from before the pause may
// be waiting for it: otherwise kernels longer than a turn would never stop.
std::int64_t pause_wait_ns(const ContextMeter& context, std::int64_t asked_ns, std::int64_t est_ns) {
  const std::int64_t paused_ns = metered.paused_ns.load(std::memory_order_relaxed);
  if (paused_ns == 0) return 0;
  Pace& pace = *context.pace;
  const std::int64_t oldest_ns = pace.oldest_ns.load(std::memory_order_relaxed);
  if (oldest_ns == 0 || oldest_ns >= paused_ns) return kLongestSleepNs;
  std::int64_t last_ns = pace.last_debt_ns.load(std::memory_order_relaxed);
  const std::int64_t since_ns = std::max({oldest_ns, asked_ns, last_ns}), now_ns = port.now_ns();
  const std::int64_t left_ns = since_ns + kPatienceNs - now_ns;
  if (left_ns > 0) return std::min(left_ns, kLongestSleepNs);
  if (!pace.last_debt_ns.compare_exchange_strong(last_ns, now_ns, std::memory_order_relaxed)) return kLongestSleepNs;
  pass_in_debt(context, est_ns);
  return 0;
}

enum class Passed { metered, unmetered, captured, look_again };

// Returns with the stream's lock held, the launch paid for and a bracket open. look_again: since the lookup, the
// stream's entry was reused. `epoch`: at the lookup of the stream. `told_until_ns`: see GateWait.
Passed pass_gate(StreamMeter& stream, const Launch& launch, std::int64_t est_ns, bool alone, std::uint32_t epoch,
                 std::int64_t asked_ns, std::int64_t& told_until_ns) {
  ContextMeter& context = *stream.context;
  // An event belongs to the context that is current at its creation.
  const CurrentContext as(metered.contexts_seen.load(std::memory_order_relaxed) == 1 ? nullptr : context.handle);
  TurnWait turn(context.device);
  GateWait waiting(context, asked_ns, told_until_ns);
  bool gathered = false;
  while (true) {
    stream.lock.lock();
    tell_lane(stream, true);
    if (metered.epoch.load(std::memory_order_acquire) != epoch) return Passed::look_again;
    if (!stream.used.load() || context.failed.load()) return Passed::unmetered;
    // Checked under the stream's lock, which the start of a capture takes.
    if (capturing(launch.stream)) return Passed::captured;
    const bool was_full = meter.full(stream, launch.chained);
    turn.look();
    // A paused share needs no turn, and launches that pass in spite of the pause do not wait for one.
    const bool paused = metered.paused_ns.load(std::memory_order_relaxed) != 0;
    if (paused) turn.leave();
    std::int64_t turn_ns = paused ? 0 : turn.wait_ns(stream, est_ns);
    // A section that the program times starts in a turn and ends with it, or a little later (timed_section.hpp).
    if (turn_ns != 0 && stream.section_ns > 0) {
      stream.section_ns -= est_ns;
      turn.leave();
      turn_ns = 0;
    }
    std::int64_t wait_ns = paused ? pause_wait_ns(context, asked_ns, est_ns) : turn_ns;
    // If an arbiter gives turns, its gates do this instead, for all shares.
    const bool ranks = on_several_gpus() && turn_ns == 0 && !paused;
    if (ranks && wait_ns == 0) {
      wait_ns = ranks_wait_ns(stream, asked_ns);
      const bool shut = wait_ns != 0 || ledger::paid_until_ns(*context.account) > port.now_ns();
      if (shut && rank_spins_for(stream)) {
        pass_in_debt(context, est_ns);
        wait_ns = 0;
      }
    }
    if (wait_ns != 0) meter.close(stream);
    else wait_ns = meter.pass(stream, launch.function, est_ns, alone, launch.chained, asked_ns);
    if (ranks) wait_ns = ranks_look_ns(stream, wait_ns);
    if (wait_ns == 0) {
      if (waiting.begun()) ++stream.bracket.waited;
      // If nothing waits, longer brackets delay no other launch and need fewer driver calls.
      if (was_full && !waiting.begun() && stream.quantum_ns < kUnboundQuantumNs) stream.quantum_ns *= 2;
      break;
    }
    turn.give_back();
    if (stream.quantum_ns > kQuantumNs) stream.quantum_ns /= 2;
    stream.lock.unlock();
    close_others(stream);
    wake_settler();
    // Credit held by other threads may suffice.
    if (!gathered && context.pace->credit_ns.load(std::memory_order_relaxed) >= est_ns) {
      gathered = true;
      continue;
    }
    waiting.goes_on(paused                                                    ? WaitReason::pause
                    : turn_ns != 0                                            ? WaitReason::turn
                    : ledger::paid_until_ns(*context.account) > port.now_ns() ? WaitReason::ceiling
                                                                              : WaitReason::work);
    if (turn_ns != 0) turn.wait(wait_ns);
    else turn.wait_for_room(wait_ns);
    if (!concerned()) {
      stream.lock.lock();
      break;
    }
  }
  waiting.passes();
  return Passed::metered;
}

// Does the same for a stream that it looks up; returns it with its lock held. Returns null if the launch is not
// metered; then `captured` says whether it belongs to a capture.
StreamMeter* find_and_pass(const Launch& launch, std::int64_t est_ns, bool alone, bool* captured) {
  const std::int64_t asked_ns = port.now_ns();
  std::int64_t told_until_ns = asked_ns;
  while (true) {
    const std::uint32_t epoch = metered.epoch.load(std::memory_order_acquire);
    StreamMeter* stream = find_stream(launch.stream);
    if (stream == nullptr || !can_measure(*stream->context)) return nullptr;
    flush_fast_path(*stream);
    const Passed passed = pass_gate(*stream, launch, est_ns, alone, epoch, asked_ns, told_until_ns);
    ContextMeter& context = *stream->context;
    // Metering has failed for less than kUnmeteredNs: charge the launch its estimate and let it pass.
    if (passed == Passed::metered && (!context.failed.load() || !context.failure_told.load())) return stream;
    stream->lock.unlock();
    *captured = passed == Passed::captured;
    if (passed == Passed::metered) return nullptr;
    if (passed == Passed::unmetered && context.failed.load()) continue;
    if (passed != Passed::look_again) return nullptr;
  }
}

// Handles a launch that cannot be measured by the share's fail policy. The driver's own error takes precedence over
// ours.
template <typename Call>
CUresult unmeasured(CUstream stream, const Call& call) {
  if (session.policy->fail_policy != ledger::FailPolicy::closed || capturing(stream)) return call();
  const RelaxedQuestions relaxed;
  const CUresult own = driver.cuStreamQuery != nullptr ? driver.cuStreamQuery(stream) : CUDA_SUCCESS;
  return own == CUDA_SUCCESS || own == CUDA_ERROR_NOT_READY ? CUDA_ERROR_NOT_PERMITTED : own;
}

template <typename Call>
[[gnu::noinline]] CUresult slow(const Launch& launch, const Call& call) {
  arrive();
  const std::uint32_t epoch = metered.lane_epoch.load();
  if (capturing(launch.stream)) return call();
  // Start the settler only when it is first needed, before anything is sent that could not be measured.
  if (metered.settler.load(std::memory_order_acquire) == 0) start_settler();
  StreamMeter* stream = metered.unsettled.load() ? nullptr : find_stream(launch.stream);
  if (stream == nullptr || !can_measure(*stream->context)) return unmeasured(launch.stream, call);
  if (metered.legacy_open_elsewhere(*stream)) close_legacy();
  const std::int64_t est_ns = metered.estimates.guess_ns(launch.function);
  note_request(*stream, told_length_ns(metered.estimates, launch.function));
  const bool alone = !launch.chained && metered.estimates.alone(launch.function);
  bool captured = false;
  stream = find_and_pass(launch, est_ns, alone, &captured);
  if (stream == nullptr) return captured ? call() : unmeasured(launch.stream, call);
  if (stream->legacy && metered.legacy_open.exchange(1) == 0) move_lane_epoch();
  // A call that blocks because the queue is full is charged meanwhile.
  if (metered.estimates.call_ns(launch.function) > kStoppedNs) wake_settler();
  const CUresult result = call();
  meter.launched(*stream, alone);
  if (!alone && open_captures.load() == 0 && metered.paused_ns.load() == 0)
    give_lane(*stream, launch.stream, launch.function, epoch);
  if (!stream->open.load(std::memory_order_relaxed)) return_prepaid(*stream->context);
  if (reports_work(stream->context->device)) report_work(stream->context->device);
  stream->lock.unlock();
  wake_settler();
  return result;
}

// Launches one kernel on several GPUs. Its streams pass their gates one after the other and stay locked until all has
// started. They are in table order, so that two such launches never deadlock.
template <typename Call>
[[gnu::noinline]] CUresult together(const CUDA_LAUNCH_PARAMS* list, unsigned count, const Call& call) {
  struct Part {
    StreamMeter* stream;
    Launch launch;
  };
  arrive();
  if (metered.settler.load(std::memory_order_acquire) == 0) start_settler();
  Part parts[ledger::kMaxDevices];
  unsigned metered_parts = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (capturing(list[i].hStream)) continue;
    StreamMeter* stream = metered.unsettled.load() ? nullptr : find_stream(list[i].hStream);
    if (stream == nullptr || !can_measure(*stream->context)) {
      const CUresult answer = unmeasured(list[i].hStream, [] { return CUDA_SUCCESS; });
      if (answer != CUDA_SUCCESS) return answer;
      continue;
    }
    note_request(*stream, told_length_ns(metered.estimates, key(list[i].function)));
    parts[metered_parts++] = {stream, {key(list[i].function), list[i].hStream}};
  }
  std::sort(parts, parts + metered_parts, [](const Part& a, const Part& b) { return a.stream < b.stream; });
  // Two parts on one stream: let the driver refuse that.
  const auto same = [](const Part& a, const Part& b) { return a.stream == b.stream; };
  metered_parts = static_cast<unsigned>(std::unique(parts, parts + metered_parts, same) - parts);
  bool captured = false;
  for (Part& part : std::span(parts).first(metered_parts))
    part.stream = find_and_pass(part.launch, metered.estimates.guess_ns(part.launch.function), true, &captured);
  for (const Part& part : std::span(parts).first(metered_parts))
    if (part.stream != nullptr) meter.begin_again(*part.stream);
  const CUresult result = call();
  for (const Part& part : std::span(parts).first(metered_parts)) {
    if (part.stream == nullptr) continue;
    meter.launched(*part.stream, true);
    if (!part.stream->open.load(std::memory_order_relaxed)) return_prepaid(*part.stream->context);
    if (reports_work(part.stream->context->device)) report_work(part.stream->context->device);
    part.stream->lock.unlock();
  }
  wake_settler();
  return result;
}

// Takes everything by value, so that the callee does not need the arguments in memory.
template <typename Function, typename... Arguments>
[[gnu::noinline, gnu::cold]] CUresult gated(Function* const& real, Launch launch, Arguments... arguments) {
  const auto call = [&] { return noted(forward(real, arguments...)); };
  return concerned() ? slow(launch, call) : call();
}

// Uses no lock, system call, clock, query, allocation or atomic read-modify-write while the fast path has credit. A
// hook then ends in a jump with its own parameters, which the compiler leaves where the program put them.
template <typename Function>
[[gnu::always_inline]] inline bool passes(Function* const& real, CUstream stream, std::uint64_t function) {
  return __atomic_load_n(&real, __ATOMIC_ACQUIRE) != nullptr && present() &&
         (lane_passes(stream, function) || unconcerned());
}

bool carries_pdl(const CUlaunchConfig* config) {
  if (config == nullptr || config->attrs == nullptr) return false;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
        config->attrs[i].value.programmaticStreamSerializationAllowed != 0)
      return true;
  return false;
}

template <typename Argument>
constexpr bool carries_pdl(Argument) {
  return false;
}

CUstream stream_of(const CUlaunchConfig* config) { return config != nullptr ? config->hStream : nullptr; }

template <typename Function, typename... Arguments>
[[gnu::always_inline]] inline CUresult launched(Function* const& real, CUstream stream, CUfunction function,
                                                Arguments... arguments) {
  if (passes(real, stream, key(function))) [[likely]]
    return real(arguments...);
  return gated(real, Launch{key(function), stream, (carries_pdl(arguments) || ...)}, arguments...);
}

}  // namespace

HEADGATE_HOOK CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                      unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra) {
  return launched(driver.cuLaunchKernel, stream, f, f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
}

HEADGATE_HOOK CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                           unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                           void** parameters, void** extra) {
  return launched(driver.cuLaunchKernel_ptsz, per_thread(stream), f, f, gx, gy, gz, bx, by, bz, shared, stream,
                  parameters, extra);
}

HEADGATE_HOOK CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** parameters, void** extra) {
  return launched(driver.cuLaunchKernelEx, stream_of(config), f, config, f, parameters, extra);
}

HEADGATE_HOOK CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** parameters,
                                             void** extra) {
  return launched(driver.cuLaunchKernelEx_ptsz, per_thread(stream_of(config)), f, config, f, parameters, extra);
}

HEADGATE_HOOK CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                                 unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                                 void** parameters) {
  return launched(driver.cuLaunchCooperativeKernel, stream, f, f, gx, gy, gz, bx, by, bz, shared, stream, parameters);
}

HEADGATE_HOOK CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                                      unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                                      void** parameters) {
  return launched(driver.cuLaunchCooperativeKernel_ptsz, per_thread(stream), f, f, gx, gy, gz, bx, by, bz, shared,
                  stream, parameters);
}

namespace {

using GraphLaunch = CUresult(CUgraphExec, CUstream);

// `given` is `stream` as this call variant passes it. If a graph may allocate, its memory is charged after the gate.
[[gnu::noinline]] CUresult graph_gated(GraphLaunch* const& real, CUgraphExec graph, CUstream given, CUstream stream) {
  if (!graphs_allocate()) return gated(real, Launch{key(graph), stream}, graph, given);
  const auto call = [&] { return with_graph_memory(graph, stream, [&] { return forward(real, graph, given); }); };
  return concerned() ? slow({key(graph), stream}, call) : call();
}

}  // namespace

HEADGATE_HOOK CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  if (!graphs_allocate() && passes(driver.cuGraphLaunch, stream, key(graph))) [[likely]]
    return driver.cuGraphLaunch(graph, stream);
  return graph_gated(driver.cuGraphLaunch, graph, stream, stream);
}

HEADGATE_HOOK CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
  if (!graphs_allocate() && passes(driver.cuGraphLaunch_ptsz, per_thread(stream), key(graph))) [[likely]]
    return driver.cuGraphLaunch_ptsz(graph, stream);
  return graph_gated(driver.cuGraphLaunch_ptsz, graph, stream, per_thread(stream));
}

HEADGATE_HOOK CUresult cuLaunch(CUfunction f) { return launched(driver.cuLaunch, nullptr, f, f); }

HEADGATE_HOOK CUresult cuLaunchGrid(CUfunction f, int width, int height) {
  return launched(driver.cuLaunchGrid, nullptr, f, f, width, height);
}

HEADGATE_HOOK CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
  return launched(driver.cuLaunchGridAsync, stream, f, f, width, height, stream);
}

HEADGATE_HOOK CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* list, unsigned count, unsigned flags) {
  const auto call = [&] { return forward(driver.cuLaunchCooperativeKernelMultiDevice, list, count, flags); };
  if (list == nullptr || count > ledger::kMaxDevices || !concerned()) return call();
  return together(list, count, call);
}
