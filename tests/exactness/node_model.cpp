#include "exactness/node_model.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "exactness/node_tenant.hpp"
#include "guest/ledger/gate.hpp"
#include "guest/limiter/compute/timer_lateness.hpp"

namespace headgate::limiter::model {
namespace {

constexpr std::int64_t kRewatchNs = 20'000;
constexpr int kFlags = 200;  // ranks are never this many collectives apart
template <typename Handle>
Handle handle(std::uint32_t number) {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(number) + 16);
}
sim::Profile profile_of(const NodeSetup& setup) {
  sim::Profile profile = *sim::find_profile("h200");
  profile.count = setup.gpus;
  if (setup.slice_ns != 0) profile.slice_ns = setup.slice_ns;
  if (setup.switch_ns != 0) profile.switch_ns = setup.switch_ns;
  return profile;
}

}  // namespace

Node::Node(const NodeSetup& setup) : Hardware(profile_of(setup)), setup_(setup), random_(setup.seed) {
  boards_.resize(setup.gpus);
  for (std::uint32_t s = 0; s < setup_.shares.size(); ++s) {
    const NodeShare& share = setup_.shares[s];
    for (const schedule::Terms& terms : share.gpus) {
      Entry& entry = entries_.emplace_back();
      entry.share = s;
      entry.gpu = terms.gpu;
      entry.account = std::make_unique<ledger::ComputeAccount>();
      for (int p = 0; p < share.processes; ++p) add_tenant(entries_.size() - 1);
    }
  }
  start_arbiter();
}

Node::~Node() = default;

void Node::start_arbiter() {
  arbiter_ = std::make_unique<schedule::Arbiter>(setup_.gpus);
  for (std::uint32_t g = 0; g < setup_.gpus; ++g) arbiter_->set_policy(g, setup_.policy);
  for (std::uint32_t s = 0; s < setup_.shares.size(); ++s) {
    const NodeShare& share = setup_.shares[s];
    std::vector<std::int64_t> virtual_times_ns;
    for (const schedule::Terms& terms : share.gpus)
      for (const Entry& entry : entries_)
        if (entry.share == s && entry.gpu == terms.gpu) virtual_times_ns.push_back(entry.virtual_ns);
    const schedule::ShareId id =
        arbiter_->add_share({.gpus = share.gpus, .gang = share.gang, .virtual_times_ns = std::move(virtual_times_ns)});
    for (Entry& entry : entries_) {
      if (entry.share != s) continue;
      entry.id = id;
      // Earlier held time is already part of the virtual time.
      arbiter_->adopt(id, entry.gpu, use_of(entry, clock_ns), entry.gate);
    }
  }
}

void Node::restart_arbiter() {
  start_arbiter();
  ring();
}

void Node::set_policy(schedule::Policy policy) {
  setup_.policy = policy;
  for (std::uint32_t g = 0; g < setup_.gpus; ++g) arbiter_->set_policy(g, policy);
  ring();
}

void Node::change(std::size_t share, const std::vector<schedule::Terms>& terms, std::uint32_t ceiling_ppm) {
  setup_.shares[share].gpus = terms;
  for (Entry& entry : entries_) {
    if (entry.share != share) continue;
    arbiter_->change_share(entry.id, terms);
    for (const std::size_t index : entry.tenants) {
      tenants_[index]->ceiling = ceiling_ppm == ledger::kWholeGpu ? kNoCeiling : ceiling_ppm;
      if (!tenants_[index]->dead) look_again(index);
    }
  }
  ring();
}

void Node::pause(std::size_t share, bool paused) {
  for (Entry& entry : entries_) {
    if (entry.share != share) continue;
    entry.paused = paused;
    if (!paused) wake_parked(entry);
  }
}

std::uint32_t Node::kill(std::size_t share) {
  for (Entry& entry : entries_) {
    if (entry.share != share) continue;
    for (const std::size_t index : entry.tenants) {
      Tenant& tenant = *tenants_[index];
      if (tenant.dead) continue;
      tenant.dead = true;
      engine.advance(static_cast<std::uint64_t>(clock_ns));
      engine.close_process(tenant.port.process);
      ring();
      return entry.gpu;
    }
  }
  return setup_.gpus;
}

void Node::wake_parked(Entry& entry) {
  for (const std::size_t index : entry.tenants) {
    if (!tenants_[index]->parked) continue;
    tenants_[index]->parked = false;
    come_back(index, clock_ns + late());
  }
}

ledger::HeldTime Node::account(std::size_t share, std::uint32_t gpu) const {
  for (const Entry& entry : entries_) {
    if (entry.share != share || entry.gpu != gpu) continue;
    ledger::HeldTime time = ledger::held_time(*entry.account, static_cast<std::int64_t>(state->now_ns));
    time.until_ns -= kStartNs;
    return time;
  }
  return {};
}

// The last call for a thread wins.
void Node::come_back(std::size_t index, std::int64_t at_ns) {
  tenants_[index]->due_ns = at_ns;
  turn(1 + 2 * index, at_ns);
}

// Not before a pause ends, or the first kernel is due.
void Node::look_again(std::size_t index) {
  come_back(index, std::max(clock_ns + late(), tenants_[index]->batch_due_ns));
}

void Node::add_tenant(std::size_t e) {
  Entry& entry = entries_[e];
  const NodeShare& share = setup_.shares[entry.share];
  const std::size_t index = tenants_.size();
  Tenant& tenant = *tenants_.emplace_back(std::make_unique<Tenant>());
  entry.tenants.push_back(index);
  tenant.entry = e;
  const Load& load = entry.gpu == share.other_gpu ? share.other_load : share.load;
  tenant.load = &load;
  tenant.ceiling = share.ceiling_ppm == ledger::kWholeGpu ? kNoCeiling : share.ceiling_ppm;
  const auto pid = static_cast<std::int32_t>(index) + 1;
  tenant.port = {this, engine.open_process({.pid = pid, .pid_namespace = 0, .start_time = 0, .comm = "model"})};
  tenant.port.context = engine.create_context(tenant.port.process, entry.gpu);
  tenant.port.ceiling = &tenant.ceiling;
  tenant.port.burst = &tenant.burst;
  tenant.meter = std::make_unique<Meter<ModelPort>>(tenant.port, tenant.estimates);
  tenant.context.handle = handle<abi::CUcontext>(tenant.port.context);
  tenant.context.account = entry.account.get();
  tenant.context.pace = &tenant.pace;
  tenant.context.arbitrated = setup_.policy != schedule::Policy::off;
  tenant.context.seat = {
      .page = entry.marks.get(), .board = boards_[entry.gpu].page.get(), .owner = index + 1, .share = entry.share + 1u};
  tenant.streams = std::vector<StreamMeter>(static_cast<std::size_t>(load.streams));
  for (StreamMeter& stream : tenant.streams) {
    stream.handle = handle<abi::CUstream>(engine.create_stream(tenant.port.context, sim::StreamKind::non_blocking));
    stream.context = &tenant.context;
    stream.quantum_ns = kQuantumNs;
    stream.used.store(true);
  }
  tenant.batch_due_ns =
      kStartNs + load.from_ns + entry.gpu * load.lag_ns + static_cast<std::int64_t>(random_() % 100'000);
  come_back(index, tenant.batch_due_ns);
}

void Node::run(std::int64_t until_ns) {
  while (!turns_.empty() && turns_.top().at_ns < kStartNs + until_ns) {
    const Turn next = turns_.top();
    turns_.pop();
    step_ns = clock_ns = next.at_ns;
    if (next.actor == 0) {
      if (next.at_ns == arbiter_due_ns_) arbitrate();
    } else if (next.actor % 2 == 1) {
      Tenant& tenant = *tenants_[(next.actor - 1) / 2];
      if (next.at_ns == tenant.due_ns) client((next.actor - 1) / 2);
    } else {
      settler((next.actor - 2) / 2);
    }
  }
  engine.advance(static_cast<std::uint64_t>(kStartNs + until_ns));
}

void Node::wake_settler(std::size_t index) {
  if (!tenants_[index]->settler_idle) return;
  tenants_[index]->settler_idle = false;
  turn(2 + 2 * index, clock_ns + late());
}

bool Node::has_work(const Entry& entry) const {
  return std::ranges::any_of(entry.tenants, [this](std::size_t index) {
    return !tenants_[index]->dead && tenants_[index]->pace.busy_streams.load() != 0;
  });
}

void Node::settler(std::size_t index) {
  Tenant& tenant = *tenants_[index];
  if (tenant.dead) return;
  tenant.port.settling = true;
  const std::int64_t next = tenant.meter->settle(tenant.streams, clock_ns);
  tenant.port.settling = false;
  const bool busy = tenant.pace.busy_streams.load() != 0;
  Entry& entry = entries_[tenant.entry];
  if (std::exchange(tenant.busy, busy) && !busy && !has_work(entry)) {
    nothing_in_share(*entry.account, clock_ns);
    if (entry.is_ending()) ring();  // as report_work()
  }
  if (tenant.sleeps && tenant.pace.busy_streams.load() == 0) come_back(index, clock_ns + late());
  if (next == kNothingOpen) {
    tenant.settler_idle = true;
    return;
  }
  turn(2 + 2 * index, clock_ns + std::clamp<std::int64_t>(next - clock_ns, 10'000, 500'000) + late());
}

// Returns false if no kernel is due; the thread is then rescheduled.
bool Node::next_kernel(Tenant& tenant, std::size_t index) {
  const Load& load = *tenant.load;
  if (clock_ns >= kStartNs + load.until_ns) return false;
  if (tenant.waits_for_end) {
    if (!wait_for_end(tenant, index, 0)) return false;
    tenant.waits_for_end = false;
    std::uint64_t last_ns = 0;
    for (const StreamMeter& each : tenant.streams)
      last_ns = std::max(last_ns, state->streams[number(each.handle)].free_ns);
    tenant.latencies.push_back(static_cast<std::int64_t>(last_ns) - tenant.batch_due_ns);
    tenant.batch_due_ns =
        load.every_ns != 0 ? std::max(tenant.batch_due_ns + load.every_ns, clock_ns) : clock_ns + load.gap_ns;
    if (tenant.batch_due_ns > clock_ns) {
      come_back(index, tenant.batch_due_ns);
      return false;
    }
  }
  if (load.depth != 0 && !wait_for_end(tenant, index, static_cast<std::uint64_t>(load.depth - 1))) return false;
  if (load.collective && tenant.steps % 2 == 1) tenant.kernel = {77, 10'000};
  else tenant.kernel = load.mix(random_);
  tenant.has_kernel = true;
  tenant.asked_ns = clock_ns;
  return true;
}

// Returns true if at most `behind` of its launches are unfinished; else reschedules the thread.
bool Node::wait_for_end(Tenant& tenant, std::size_t index, std::uint64_t behind) {
  if (tenant.sent.size() <= behind) return true;
  engine.advance(static_cast<std::uint64_t>(step_ns));
  while (tenant.sent.size() > behind && engine.completed(tenant.sent.front().first) >= tenant.sent.front().second)
    tenant.sent.pop_front();
  if (tenant.sent.size() <= behind) return true;
  tenant.close_all();  // like cuStreamSynchronize
  wake_settler(index);
  const auto& [s, last] = tenant.sent[tenant.sent.size() - 1 - behind];
  const std::uint64_t at = engine.earliest_finish_ns(s, last);
  const std::int64_t again = at == sim::kNever ? step_ns + kRewatchNs : static_cast<std::int64_t>(at);
  come_back(index, std::max(again, step_ns + 1'000) + (again > step_ns + kRewatchNs ? late() : 0));
  return false;
}

// Returns true if nothing is in flight. Queries the event itself, because the settler may be behind.
bool Node::dry(Tenant& tenant) {
  if (tenant.pace.busy_streams.load() == 0) return true;
  const StreamMeter& stream = tenant.stream();
  if (tenant.pace.busy_streams.load() > 1 || stream.open.load() || stream.head.load() == stream.tail.load())
    return false;
  return tenant.port.query(stream.closed[(stream.tail.load() - 1) % StreamMeter::kClosed].end) == abi::CUDA_SUCCESS;
}

void Node::end_daemon(std::span<const std::uint32_t> parts_ppm) {
  gone_ = true;
  std::vector<std::uint32_t> next_ppm(setup_.gpus);
  std::vector<std::int64_t> cycles_ns(setup_.gpus);
  for (const Entry& entry : entries_)
    cycles_ns[entry.gpu] =
        std::max(cycles_ns[entry.gpu], ledger::cycle_for_ns(entry.account->kernel_ns.load(), parts_ppm[entry.share]));
  for (Entry& entry : entries_) {
    entry.part_ppm = parts_ppm[entry.share];
    entry.span = span_of(cycles_ns[entry.gpu], next_ppm[entry.gpu], entry.part_ppm);
    next_ppm[entry.gpu] += entry.part_ppm;
    for (const std::size_t index : entry.tenants) {
      Tenant& tenant = *tenants_[index];
      tenant.wanting = tenant.parked = false;
      tenant.pace.behind_ns = 0;
      if (!tenant.dead) look_again(index);
    }
  }
}

// As TurnWait::wait_ns() in a share that is left alone.
bool Node::passes_without_daemon(Tenant& tenant, Entry& entry, std::size_t index, std::int64_t est_ns) {
  if (entry.part_ppm < ledger::kWholeGpu)
    tenant.ceiling = std::min(setup_.shares[entry.share].ceiling_ppm, entry.part_ppm);
  const std::int64_t wait_ns =
      wait_for_span_ns(tenant.pace, *entry.account, entry.span, entry.part_ppm, clock_ns, est_ns);
  if (wait_ns == 0 || entry.use->is_sparse(clock_ns, entry.span, entry.account->held_ns.load())) {
    if (std::exchange(tenant.was_shut, false)) count_after_shut_gate(tenant.pace, clock_ns, est_ns);
    return true;
  }
  tenant.was_shut = true;
  tenant.pace.set_turn_awaited(clock_ns);  // as GateWait::goes_on()
  tenant.close_all();
  wake_settler(index);
  come_back(index, clock_ns + std::min(wait_ns, ledger::kTurnLookNs) + late());
  return false;
}

// Does what launch_hooks.cpp and the gates do around Meter::pass.
bool Node::passes_gate(Tenant& tenant, Entry& entry, std::size_t index, std::int64_t est_ns) {
  if (entry.paused) {
    tenant.close_all();
    wake_settler(index);
    tenant.wanting = false;
    tenant.parked = true;
    return false;
  }
  if (gone_) return passes_without_daemon(tenant, entry, index, est_ns);
  switch (entry.gate) {
    case schedule::Gate::open:
      if (const std::int64_t at_ns = entry.opens_ns - head_start_ns(tenant.wake_up_late_ns);
          at_ns - clock_ns >= 5'000) {
        tenant.pace.set_turn_awaited(clock_ns);
        tenant.wanting = tenant.parked = tenant.was_shut = true;
        come_back(index, at_ns + late());
        return false;
      }
      tenant.parked = false;
      break;
    case schedule::Gate::open_notify:
      if (!entry.told) ring();
      entry.told = true;
      break;
    case schedule::Gate::batch:
      if (dry(tenant)) {
        tenant.portion_left_ns = entry.batch_ns;
      } else if (tenant.portion_left_ns < est_ns) {
        tenant.close_all();
        wake_settler(index);
        tenant.wanting = true;
        const std::int64_t ahead = tenant.pace.busy_until_ns.load() - clock_ns;
        const std::int64_t asked =
            std::clamp<std::int64_t>(ahead - head_start_ns(tenant.wake_up_late_ns), 5'000, 500'000);
        const std::int64_t slept = asked + late();
        tenant.wake_up_late_ns = next_lateness_ns(tenant.wake_up_late_ns, asked, slept);
        come_back(index, clock_ns + slept);
        return false;
      }
      tenant.portion_left_ns -= est_ns;
      break;
    case schedule::Gate::shut:
    case schedule::Gate::queued:
      tenant.close_all();
      wake_settler(index);
      if (entry.gate == schedule::Gate::shut && !tenant.wanting) ring();
      if (!entry.is_ending()) tenant.pace.set_turn_awaited(clock_ns);
      tenant.wanting = tenant.parked = tenant.was_shut = true;
      return false;
  }
  return true;
}

void Node::client(std::size_t index) {
  Tenant& tenant = *tenants_[index];
  Entry& entry = entries_[tenant.entry];
  if (tenant.dead) return;
  tenant.sleeps = false;
  if (tenant.nodes_left != 0) return push_rest(tenant, index);
  if (!tenant.has_kernel) {
    if (!next_kernel(tenant, index)) return;
    // From the limiter's view: how long nothing of the process has been in flight.
    if (const std::int64_t dry_ns = note_asked(tenant.pace, ++entry.requests, clock_ns); dry_ns != 0) {
      entry.dry_ns += dry_ns;
      ++entry.dry_spells;
    }
  }
  const std::uint32_t s = tenant.engine_stream();
  if (sim::pushed(*state, s) - engine.completed(s) > 1'000) {
    engine.advance(static_cast<std::uint64_t>(step_ns));
    if (sim::pushed(*state, s) - engine.completed(s) > 1'000) return come_back(index, clock_ns + 50'000);
  }
  if (tenant.load->copies) return copy(tenant, index);
  const std::int64_t known = told_length_ns(tenant.estimates, tenant.kernel.function);
  const std::int64_t est = tenant.estimates.guess_ns(tenant.kernel.function);
  if (known != 0) entry.account->kernel_ns.store(known);
  const bool alone = tenant.estimates.alone(tenant.kernel.function);
  if (!passes_gate(tenant, entry, index, est)) return;
  if (std::exchange(tenant.was_shut, false)) count_after_shut_gate(tenant.pace, clock_ns, est);
  std::int64_t wait = 0;
  const std::vector<RankPlace> others = other_ranks(entry);
  if (!others.empty()) wait = rank_gate_ns(tenant, entry, others, est);
  if (wait != 0) tenant.close_all();
  else wait = tenant.meter->pass(tenant.stream(), tenant.kernel.function, est, alone, false, tenant.asked_ns);
  if (wait != 0) {
    wait = look_at_ranks_ns(others, wait, clock_ns);
    tenant.close_all();
    wake_settler(index);
    tenant.sleeps = true;
    return come_back(index, clock_ns + wait + late());
  }
  launch(tenant, entry, alone);
  if (tenant.estimates.call_ns(tenant.kernel.function) > kStoppedNs) wake_settler(index);  // like launch_hooks.cpp
  push_rest(tenant, index);
}

// Pushes the rest of a launch; its call ends with the last kernel.
void Node::push_rest(Tenant& tenant, std::size_t index) {
  const std::uint32_t s = tenant.engine_stream();
  while (tenant.nodes_left != 0) {
    if (sim::pushed(*state, s) - engine.completed(s) >= 1'000) {
      engine.advance(static_cast<std::uint64_t>(step_ns));
      if (sim::pushed(*state, s) - engine.completed(s) >= 1'000) return come_back(index, clock_ns + 50'000);
    }
    sim::Command command;
    command.submit_ns = command.order = static_cast<std::uint64_t>(clock_ns);
    command.amount = static_cast<std::uint64_t>(tenant.kernel.duration_ns);
    command.sms = 132;
    if (tenant.load->collective) spin_for(tenant, command);
    if (sim::push(*state, s, command) == 0) std::abort();
    --tenant.nodes_left;
  }
  tenant.meter->launched(tenant.stream(), tenant.alone);
  tenant.stream().lock.unlock();
  ++counts.launches;
  ++tenant.launched;
  if (tenant.load->depth != 0 || tenant.load->batch != 0) tenant.sent.emplace_back(s, sim::pushed(*state, s));
  if (tenant.load->batch != 0 && ++tenant.in_batch == tenant.load->batch) {
    tenant.in_batch = 0;
    tenant.waits_for_end = true;
  }
  wake_settler(index);
  if (tenant.waits_for_end) tenant.close_all();  // like cuStreamSynchronize
  tenant.next_stream = (tenant.next_stream + 1) % tenant.streams.size();
  come_back(index, clock_ns);
}

void Node::copy(Tenant& tenant, std::size_t index) {
  tenant.has_kernel = false;
  clock_ns += kLaunchCostNs;
  sim::Command command;
  command.kind = sim::CommandKind::copy_to_device;
  command.submit_ns = command.order = static_cast<std::uint64_t>(clock_ns);
  command.amount = 32ull << 20;
  if (sim::push(*state, tenant.engine_stream(), command) == 0) std::abort();
  come_back(index, clock_ns);
}

// Returns the share's other GPUs. Its ranks, one per GPU, are threads of one process.
std::vector<RankPlace> Node::other_ranks(const Entry& mine) const {
  std::vector<RankPlace> others;
  for (const Entry& entry : entries_) {
    if (entry.share != mine.share || entry.gpu == mine.gpu) continue;
    RankPlace& place = others.emplace_back(RankPlace{.paid_until_ns = ledger::paid_until_ns(*entry.account)});
    if (entry.gate == schedule::Gate::shut || entry.gate == schedule::Gate::queued) continue;  // is_shut_out()
    for (const std::size_t index : entry.tenants) {
      const Pace& pace = tenants_[index]->pace;
      if (pace.busy_streams.load() == 0) continue;
      const std::int64_t due = std::max<std::int64_t>(1, pace.busy_until_ns.load());
      if (place.due_ns == 0 || due < place.due_ns) place.due_ns = due;
    }
    place.runs = late_work_runs(*entry.account, place.due_ns, clock_ns);
    place.due_ns = late_from_ns(*entry.account, place.due_ns, clock_ns);
  }
  return others;
}

// Calls multi_gpu_gate like launch_hooks.cpp.
std::int64_t Node::rank_gate_ns(Tenant& tenant, Entry& entry, std::span<const RankPlace> others, std::int64_t est_ns) {
  std::int64_t& until_ns = ranks_until_ns_[entry.share];
  const std::int64_t wait = wait_for_ranks_ns(others, clock_ns < until_ns, tenant.asked_ns, clock_ns);
  const bool shut = wait != 0 || ledger::paid_until_ns(*entry.account) > clock_ns;
  if (!shut || !a_rank_spins(tenant.pace, others, clock_ns < until_ns, clock_ns)) return wait;
  until_ns = ranks_until_ns(others, until_ns, clock_ns);
  charge_ahead(*entry.account, tenant.pace, est_ns, ledger::rate_in_force(*entry.account, tenant.ceiling), clock_ns);
  return 0;
}

void Node::launch(Tenant& tenant, Entry&, bool alone) {
  tenant.wanting = tenant.has_kernel = false;
  clock_ns += kLaunchCostNs;
  tenant.nodes_left = tenant.load->nodes;
  tenant.alone = alone;
  (void)tenant.stream().lock.try_lock();  // launch_hooks.cpp holds it during the call
}

// Two ranks: an even step computes and signals that it is done; an odd step spins for the peer, which is in the same
// share or in one tied to it.
void Node::spin_for(Tenant& tenant, sim::Command& command) {
  const Entry& entry = entries_[tenant.entry];
  const std::string& gang = setup_.shares[entry.share].gang;
  const std::uint64_t meeting =
      gang.empty() ? entry.share
                   : static_cast<std::uint64_t>(std::ranges::find(setup_.shares, gang, &NodeShare::gang) -
                                                setup_.shares.begin());
  const auto key = [&](std::uint32_t rank, std::uint64_t step) {
    return (meeting << 32 | rank << 16) + step / 2 % kFlags;
  };
  const std::uint64_t step = tenant.steps++;
  if (step % 2 == 0) {
    // The flag half a round ahead is not in use any more, so clear it.
    engine.write_flag(engine.flag(sim::kNone, key(entry.gpu, step + kFlags)), 0);
    command.set_flag = engine.flag(sim::kNone, key(entry.gpu, step));
  } else {
    command.wait_flag = engine.flag(sim::kNone, key(1 - entry.gpu, step));
  }
}

}  // namespace headgate::limiter::model
