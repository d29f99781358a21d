#include "exactness/model.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace headgate::limiter::model {
namespace {

template <typename Handle>
Handle handle(std::uint32_t number) {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(number) + 16);
}
template <typename Handle>
std::uint32_t number(Handle h) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(h) - 16);
}

constexpr std::int64_t kLateness[] = {
#include "exactness/lateness.inc"
};

constexpr std::int64_t kStalling[] = {
#include "exactness/lateness_loaded.inc"
};

}  // namespace

std::span<const std::int64_t> recorded_lateness() { return kLateness; }

std::span<const std::int64_t> stalling_lateness() { return kStalling; }

KernelMix constant(std::int64_t duration_ns) {
  return [duration_ns](std::mt19937_64&) { return Kernel{1, duration_ns}; };
}

KernelMix lognormal() {
  return [](std::mt19937_64& random) {
    const double gauss = std::normal_distribution<double>()(random);
    const auto ns = static_cast<std::int64_t>(100'000 * std::exp(gauss));
    return Kernel{1 + random() % 4, std::clamp<std::int64_t>(ns, 5'000, 2'000'000)};
  };
}

std::int64_t ModelPort::now_ns() { return machine->clock_ns; }

abi::CUresult ModelPort::create(abi::CUevent* event) {
  const std::uint32_t made = machine->engine.create_event(process, 0);
  if (made == sim::kNone) return abi::CUDA_ERROR_OUT_OF_MEMORY;
  *event = handle<abi::CUevent>(made);
  return abi::CUDA_SUCCESS;
}

void ModelPort::destroy(abi::CUevent event) { machine->engine.destroy_event(number(event)); }

abi::CUresult ModelPort::record(abi::CUevent event, abi::CUstream stream) {
  machine->clock_ns += Hardware::kRecordCostNs;  // the doorbell rings at the end of a call
  sim::Command command =
      sim::event_record(*machine->state, number(event), number(stream), static_cast<std::uint64_t>(machine->clock_ns));
  command.order = static_cast<std::uint64_t>(machine->clock_ns);
  if (sim::push(*machine->state, number(stream), command) == 0) return abi::CUDA_ERROR_UNKNOWN;
  ++machine->counts.records;
  if (settling) ++machine->counts.settler_enqueues;
  return abi::CUDA_SUCCESS;
}

abi::CUresult ModelPort::query(abi::CUevent event) {
  machine->engine.advance(static_cast<std::uint64_t>(machine->step_ns));
  ++machine->counts.queries;
  machine->clock_ns += Hardware::kQueryCostNs;
  return sim::read_event(*machine->state, number(event)).complete ? abi::CUDA_SUCCESS : abi::CUDA_ERROR_NOT_READY;
}

abi::CUresult ModelPort::elapsed(float* ms, abi::CUevent start, abi::CUevent end) {
  const auto from = sim::read_event(*machine->state, number(start)), to = sim::read_event(*machine->state, number(end));
  if (!from.complete || !to.complete) return abi::CUDA_ERROR_NOT_READY;
  *ms = static_cast<float>(static_cast<double>(static_cast<std::int64_t>(to.gpu_ns - from.gpu_ns)) / 1e6);
  return abi::CUDA_SUCCESS;
}

abi::CUresult ModelPort::idle(abi::CUstream stream, ContextMeter&) {
  machine->engine.advance(static_cast<std::uint64_t>(machine->step_ns));
  return machine->engine.completed(number(stream)) == sim::pushed(*machine->state, number(stream))
             ? abi::CUDA_SUCCESS
             : abi::CUDA_ERROR_NOT_READY;
}

void ModelPort::failed(ContextMeter&, abi::CUresult result, const char* call) {
  std::fprintf(stderr, "the model's %s answered %u\n", call, static_cast<unsigned>(result));
  std::abort();
}

std::uint32_t ModelPort::ceiling_ppm(const ContextMeter&) const { return *ceiling; }
std::uint32_t ModelPort::burst_ppm(const ContextMeter&) const { return *burst; }

Machine::Machine(const Setup& setup)
    : Hardware(*sim::find_profile("h200")),
      ceiling_ppm(setup.ceiling_ppm),
      burst_ppm(setup.burst_ppm),
      setup_(setup),
      random_(setup.seed) {
  state->profile.clock_drift_ppb = setup.clock_drift_ppb;
  if (!setup_.beside.empty() || burst_ppm != 0) page = std::make_unique<ledger::GpuPage>();
  const int all = setup.processes + static_cast<int>(setup.beside.size());
  for (int p = 0; p < all; ++p) {
    const Neighbour* neighbour =
        p < setup.processes ? nullptr : &setup_.beside[static_cast<std::size_t>(p - setup.processes)];
    const int threads = neighbour != nullptr ? 1 : setup.threads, streams = neighbour != nullptr ? 1 : setup.streams;
    if (neighbour != nullptr) neighbours.push_back(std::make_unique<ledger::ComputeAccount>());
    auto& process = *processes_.emplace_back(std::make_unique<Process>());
    process.port = {this, engine.open_process({.pid = p + 1, .pid_namespace = 0, .start_time = 0, .comm = "model"})};
    process.port.context = engine.create_context(process.port.process, 0);
    process.meter = std::make_unique<Meter<ModelPort>>(process.port, process.estimates);
    process.context.handle = handle<abi::CUcontext>(process.port.context);
    process.port.ceiling = neighbour != nullptr ? &neighbour->ceiling_ppm : &ceiling_ppm;
    process.port.burst = neighbour != nullptr ? &neighbour->burst_ppm : &burst_ppm;
    process.mix = neighbour != nullptr ? &neighbour->mix : &setup_.mix;
    process.context.account = neighbour != nullptr ? neighbours.back().get() : &account;
    if (page != nullptr)
      process.context.seat = {
          .page = page.get(), .owner = static_cast<std::uint64_t>(p) + 1, .share = neighbours.size() + 1};
    process.context.pace = &process.pace;
    process.streams = std::vector<StreamMeter>(static_cast<std::size_t>(streams));
    for (StreamMeter& stream : process.streams) {
      stream.handle = handle<abi::CUstream>(engine.create_stream(process.port.context, sim::StreamKind::non_blocking));
      stream.context = &process.context;
      stream.quantum_ns = kQuantumNs;
      stream.used.store(true);
    }
    settler_of_.push_back(actors_.size());
    actors_.push_back({.process = p, .settler = true, .streams = {}, .kernel = {}});
    for (int t = 0; t < threads; ++t) {
      Actor actor{.process = p, .streams = {}, .kernel = {}};
      actor.thread = t;
      actor.neighbour = neighbour;
      for (int s = t % streams; s < streams; s += threads) actor.streams.push_back(static_cast<std::uint32_t>(s));
      turn(actors_.size(), kStartNs + static_cast<std::int64_t>(random_() % 100'000));
      actors_.push_back(actor);
    }
  }
}

void Machine::turn(std::size_t actor, std::int64_t at_ns) { turns_.push({at_ns, ++turn_number_, actor}); }

std::int64_t Machine::late() { return setup_.lateness[random_() % setup_.lateness.size()]; }

void Machine::run(std::int64_t until_ns) {
  while (!turns_.empty() && turns_.top().at_ns < kStartNs + until_ns) {
    const Turn next = turns_.top();
    turns_.pop();
    step_ns = clock_ns = next.at_ns;
    Actor& actor = actors_[next.actor];
    if (actor.settler) settler(actor, next.actor);
    else client(actor, next.actor);
  }
  engine.advance(static_cast<std::uint64_t>(kStartNs + until_ns));
  if (setup_.spin) met = state->flags[engine.flag(sim::kNone, 7)].value != 0;
}

void Machine::wake_settler(int p) {
  if (!processes_[p]->settler_idle) return;
  processes_[p]->settler_idle = false;
  turn(settler_of_[p], clock_ns + late());
}

void Machine::settler(Actor& actor, std::size_t index) {
  if (setup_.settler_stall_ns != 0 && !actor.stalled && clock_ns > kStartNs + 1'000'000'000) {
    actor.stalled = true;
    return turn(index, clock_ns + setup_.settler_stall_ns);
  }
  Process& process = *processes_[actor.process];
  process.port.settling = true;
  const std::int64_t next = process.meter->settle(process.streams, clock_ns);
  process.port.settling = false;
  if (next == kNothingOpen) {
    process.settler_idle = true;
    return;
  }
  turn(index, clock_ns + std::clamp<std::int64_t>(next - clock_ns, 10'000, 500'000) + late());
}

constexpr std::int64_t kLateNs = 200'000;  // as in the bench's split: shorter delays are normal wake-ups

// Returns when the process's last command ended; now if one is under way.
std::int64_t Machine::idle_since(const Process& process) {
  engine.advance(static_cast<std::uint64_t>(step_ns));
  std::int64_t since_ns = 0;
  for (const StreamMeter& stream : process.streams) {
    if (engine.completed(number(stream.handle)) != sim::pushed(*state, number(stream.handle))) return step_ns;
    since_ns = std::max(since_ns, static_cast<std::int64_t>(state->streams[number(stream.handle)].free_ns));
  }
  return since_ns;
}

void Machine::note_unasked(std::int64_t from_ns) {
  constexpr auto kBucketNs = static_cast<std::int64_t>(sim::kBucketNs);
  while (from_ns < step_ns) {
    const std::int64_t bucket = (from_ns - kStartNs) / kBucketNs;
    const std::int64_t to_ns = std::min(step_ns, kStartNs + (bucket + 1) * kBucketNs);
    unasked_.resize(std::max(unasked_.size(), static_cast<std::size_t>(bucket) + 1));
    unasked_[static_cast<std::size_t>(bucket)] += to_ns - from_ns;
    from_ns = to_ns;
  }
}

// Does what launch_hooks.cpp does around Meter::pass.
void Machine::client(Actor& actor, std::size_t index) {
  Process& process = *processes_[actor.process];
  if (const Neighbour* neighbour = actor.neighbour; neighbour != nullptr) {
    if (clock_ns - kStartNs >= neighbour->until_ns) return;
    if (clock_ns - kStartNs < neighbour->from_ns) return turn(index, kStartNs + neighbour->from_ns);
  }
  if (!actor.has_kernel) {
    actor.kernel = (*process.mix)(random_);
    actor.has_kernel = true;
    actor.asked_ns = clock_ns;
  }
  StreamMeter& stream = process.streams[actor.streams[actor.next_stream]];
  // The launch queue is full, where a driver would block.
  if (sim::pushed(*state, number(stream.handle)) - engine.completed(number(stream.handle)) > 1'000) {
    engine.advance(static_cast<std::uint64_t>(step_ns));
    if (sim::pushed(*state, number(stream.handle)) - engine.completed(number(stream.handle)) > 1'000)
      return turn(index, clock_ns + 50'000);
  }
  const bool overslept =
      actor.due_ns != 0 && step_ns - actor.due_ns > kLateNs && setup_.processes == 1 && setup_.threads == 1;
  const std::int64_t unasked_since =
      overslept ? std::max({actor.due_ns, ledger::paid_until_ns(account), idle_since(process)}) : 0;
  const std::int64_t est = process.estimates.guess_ns(actor.kernel.function);
  const bool alone = process.estimates.alone(actor.kernel.function);
  const std::int64_t wait = process.meter->pass(stream, actor.kernel.function, est, alone, false, actor.asked_ns);
  if (wait != 0) {
    ++counts.waits;
    for (StreamMeter& other : process.streams)
      if (&other != &stream) process.meter->close(other);
    wake_settler(actor.process);
    actor.due_ns = clock_ns + wait;
    return turn(index, actor.due_ns + late());
  }
  if (overslept) note_unasked(unasked_since);
  actor.due_ns = 0;
  most_ahead_ns = std::max(most_ahead_ns, process.pace.busy_until_ns.load() - clock_ns - std::max(est, kInFlightNs));
  sim::Command command;
  const bool long_call = actor.kernel.call_ns != 0;
  command.submit_ns = static_cast<std::uint64_t>(clock_ns + (long_call ? actor.kernel.rings_ns : kLaunchCostNs));
  clock_ns += long_call ? actor.kernel.call_ns : kLaunchCostNs;
  command.order = command.submit_ns;
  command.amount = static_cast<std::uint64_t>(actor.kernel.duration_ns);
  command.sms = setup_.sms;
  if (setup_.spin) {
    const std::uint32_t flag = engine.flag(sim::kNone, 7);
    const bool second = setup_.processes > 1 ? actor.process == 1 : actor.thread == 1;
    if (actor.process == 0 && actor.thread == 0 && actor.launched == 0) command.wait_flag = flag;
    if (second && actor.launched == 3) command.set_flag = flag;
  }
  if (sim::push(*state, number(stream.handle), command) == 0) std::abort();
  ++actor.launched;
  ++counts.launches;
  sent_ns.push_back(actor.kernel.duration_ns);
  process.meter->launched(stream, alone);
  wake_settler(actor.process);
  actor.has_kernel = false;
  actor.next_stream = (actor.next_stream + 1) % actor.streams.size();
  turn(index, std::max(clock_ns, step_ns + setup_.launch_every_ns));
}

double Machine::held_percent(std::int64_t from_ns, std::int64_t to_ns) const {
  std::uint64_t held = 0;
  for (std::int64_t at = kStartNs + from_ns; at < kStartNs + to_ns; at += static_cast<std::int64_t>(sim::kBucketNs))
    held += sim::held_in_bucket(state->device_history[0], static_cast<std::uint64_t>(at) / sim::kBucketNs);
  return 100.0 * static_cast<double>(held) / static_cast<double>(to_ns - from_ns);
}

std::int64_t Machine::unasked_ns(std::int64_t from_ns, std::int64_t to_ns) const {
  std::int64_t sum = 0;
  for (auto at = static_cast<std::size_t>(from_ns) / sim::kBucketNs;
       at < static_cast<std::size_t>(to_ns) / sim::kBucketNs; ++at)
    if (at < unasked_.size()) sum += unasked_[at];
  return sum;
}

double Machine::charged_percent() const {
  return 100.0 * static_cast<double>(account.held_ns.load()) / static_cast<double>(state->now_ns - kStartNs);
}

double Machine::process_percent_until(int index, std::int64_t from_ns, std::int64_t to_ns) {
  run(from_ns);
  const double before = process_percent(index) * static_cast<double>(from_ns);
  run(to_ns);
  return (process_percent(index) * static_cast<double>(to_ns) - before) / static_cast<double>(to_ns - from_ns);
}

double Machine::process_percent(int index) const {
  for (const sim::Account& each : state->accounts)
    if (each.used != 0 && each.pid == index + 1)
      return 100.0 * static_cast<double>(each.held_ns) / static_cast<double>(state->now_ns - kStartNs);
  return 0;
}

std::int64_t Machine::charged_ns() const {
  auto sum = static_cast<std::int64_t>(account.held_ns.load());
  for (const auto& process : processes_) {
    for (const StreamMeter& stream : process->streams) {
      if (stream.open.load()) sum += stream.spent_ns.load();
      for (std::uint32_t i = stream.head.load(); i != stream.tail.load(); ++i) {
        const Bracket& bracket = stream.closed[i % StreamMeter::kClosed];
        sum += bracket.charged_ns - bracket.fresh_ns;
      }
    }
  }
  return sum;
}

double Machine::estimated_part() const {
  const auto held = static_cast<double>(account.held_ns.load());
  return held == 0 ? 0 : static_cast<double>(account.estimated_ns.load()) / held;
}

}  // namespace headgate::limiter::model
