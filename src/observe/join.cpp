#include "observe/join.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "base/saturating_math.hpp"

namespace headgate::observe {
namespace {

using snapshot::Snapshot;

// Returns time of kernels and copies, and time in which launches waited: a share kept from working is not idle.
std::uint64_t work_of(const snapshot::Share& share) {
  std::uint64_t work_ns = 0;
  for (const auto& device : share.devices) work_ns += device.held_ns + device.copy_ns + device.throttled_ns;
  return work_ns;
}

// A share's activity in the last second, by its ledger and the driver; by the driver alone if the ledger measures
// nothing.
enum class Activity { worked, rested, unknown };

// What the driver knows of processes' work on the GPUs.
class DriverActivity {
 public:
  DriverActivity(const JoinInput& input, const std::vector<snapshot::Process>& processes) {
    std::map<std::uint32_t, const std::string*> share_of;
    for (const auto& process : processes)
      if (process.pid != 0 && !process.share.empty()) share_of[process.pid] = &process.share;
    for (const DriverProcess& process : input.driver.processes) {
      if (process.busy_ratio) tells_.insert(process.uuid);
      const auto share = share_of.find(process.pid);
      if (process.at_work && share != share_of.end()) at_work_.insert(*share->second);
    }
    // The driver gives no figure of a process that did nothing, nor where it cannot.
    for (const auto& gpu : input.driver.gpus)
      if (gpu.busy_ratio == 0.0 && !input.node.nvml_released) tells_.insert(gpu.uuid);
  }
  [[nodiscard]] Activity of(const snapshot::Share& share) const {
    if (at_work_.contains(share.name)) return Activity::worked;
    const bool known = share.processes == 0 || std::ranges::all_of(share.devices, [&](const auto& d) {
                         return d.metered || tells_.contains(d.uuid);
                       });
    return known ? Activity::rested : Activity::unknown;
  }

 private:
  std::set<std::string> at_work_, tells_;  // shares; GPUs
};

// Returns what the waiting time was mostly spent waiting for; empty if there was none. A full queue of the share's work
// matters little if another share, or a limit, is why it is full.
std::string main_cause(const snapshot::ShareDevice& now, const snapshot::ShareDevice& then) {
  const std::uint64_t work_ns = saturating_sub(now.waited_work_ns, then.waited_work_ns);
  const std::pair<const char*, std::uint64_t> causes[] = {
      {"ceiling", saturating_sub(now.waited_ceiling_ns, then.waited_ceiling_ns)},
      {"turn", saturating_sub(now.waited_turn_ns, then.waited_turn_ns)},
      {"pause", saturating_sub(now.waited_pause_ns, then.waited_pause_ns)},
  };
  const auto& [word, waited_ns] = *std::ranges::max_element(causes, {}, [](const auto& cause) { return cause.second; });
  if (waited_ns == 0 || waited_ns < work_ns / 10) return work_ns == 0 ? "" : "work";
  return word;
}

// Returns the time between the moments for which two readings, elapsed_ns apart, tell what was held.
std::uint64_t held_span_ns(const snapshot::ShareDevice& now, const snapshot::ShareDevice& then,
                           std::uint64_t elapsed_ns) {
  return std::max<std::uint64_t>(1, saturating_sub(saturating_add(elapsed_ns, then.held_age_ns), now.held_age_ns));
}

void add_rates(snapshot::Share& share, const snapshot::Share& before, std::uint64_t elapsed_ns) {
  if (elapsed_ns == 0) return;
  for (std::size_t i = 0; i < share.devices.size() && i < before.devices.size(); ++i) {
    auto& now = share.devices[i];
    const auto& then = before.devices[i];
    // Figures go back if time turns out to be another share's, and if a tenant writes anything.
    if (now.uuid != then.uuid || now.held_ns < then.held_ns || now.throttled_ns < then.throttled_ns) continue;
    // A long kernel is charged when it ends, and a tenant may write anything: no share holds more than all of a GPU.
    if (now.metered && then.metered)
      now.held_ratio = std::min(
          static_cast<double>(now.held_ns - then.held_ns) / static_cast<double>(held_span_ns(now, then, elapsed_ns)),
          1.0);
    // Several threads of a process may wait at once, and one that was stopped tells of its wait when it goes on.
    const auto waited = [&](std::uint64_t until_now_ns, std::uint64_t before_ns) {
      return std::min(static_cast<double>(saturating_sub(until_now_ns, before_ns)) / static_cast<double>(elapsed_ns),
                      static_cast<double>(std::max(share.processes, 1u)));
    };
    now.throttled_ratio = waited(now.throttled_ns, then.throttled_ns);
    now.limit_wait_ratio = waited(now.waited_ceiling_ns, then.waited_ceiling_ns);
    now.turn_wait_ratio = waited(now.waited_turn_ns, then.waited_turn_ns);
    now.work_wait_ratio = waited(now.waited_work_ns, then.waited_work_ns);
    now.waits_for = main_cause(now, then);
  }
}

std::string state_of(const snapshot::Share& share, const LedgerSnapshot& ledger, Activity activity) {
  if (!share.state.empty()) return share.state;  // paused, draining
  const auto any = [&](auto&& test) { return std::ranges::any_of(share.devices, test); };
  if (share.processes == 0) {
    // What the dead had is the share's until the driver is seen to have released it.
    if (any([](const auto& d) { return d.memory_used_bytes > 0; })) return "freeing";
    return ledger.attended ? "idle" : "empty";
  }
  if (share.frozen_processes == share.processes) return "frozen";
  if (ledger.waits_for_memory ||
      any([](const auto& d) { return d.memory_limit_bytes && d.memory_used_bytes >= *d.memory_limit_bytes; }))
    return "full";
  // A share that waits for its own earlier work has all of the GPU that it can use.
  const auto waits_for = [](const auto& d, std::string_view cause) {
    return d.throttled_ratio.value_or(0) > 0.01 && d.waits_for == cause;
  };
  if (any([&](const auto& d) { return waits_for(d, "ceiling") && d.compute_ceiling_ratio < 1; })) return "throttled";
  if (any([&](const auto& d) { return waits_for(d, "turn"); })) return "takes turns";
  return activity == Activity::rested ? "idle" : "ok";
}

snapshot::Share joined_share(const LedgerSnapshot& ledger, const RecentSnapshots& before, const JoinInput& input,
                             const DriverActivity& driver) {
  snapshot::Share share = ledger.share;
  Activity activity = Activity::unknown;
  if (const auto since = before.second_ago(share, input.taken_ns); since.share != nullptr) {
    add_rates(share, *since.share, since.elapsed_ns);
    const bool wants = ledger.waits_for_memory && share.processes > 0;
    activity = wants || work_of(share) != work_of(*since.share) ? Activity::worked : driver.of(share);
    const snapshot::Share* last = same_share_in(*before.last(), share);
    const std::uint64_t idle_ns = last == nullptr ? 0 : last->idle_ns;
    share.idle_ns = activity == Activity::worked ? 0 : idle_ns;
    if (activity == Activity::rested)
      share.idle_ns =
          idle_ns == 0 ? since.elapsed_ns : idle_ns + saturating_sub(input.taken_ns, before.last()->taken_ns);
  }
  share.state = state_of(share, ledger, activity);
  return share;
}

// Returns a process's row; makes it at the first call.
snapshot::Process& row_of(std::map<std::uint32_t, snapshot::Process>& rows, std::uint32_t pid, const JoinInput& input) {
  auto [at, made] = rows.try_emplace(pid);
  snapshot::Process& row = at->second;
  if (!made) return row;
  row.pid = pid;
  row.level = "observe";
  if (const auto facts = input.facts.find(pid); facts != input.facts.end()) {
    row.uid = facts->second.uid;
    row.user = facts->second.user;
    row.command = facts->second.command;
    row.where = facts->second.where;
  }
  return row;
}

snapshot::ProcessDevice& device_of(snapshot::Process& process, const std::string& uuid) {
  const auto found = std::ranges::find(process.devices, uuid, &snapshot::ProcessDevice::uuid);
  if (found != process.devices.end()) return *found;
  snapshot::ProcessDevice& made = process.devices.emplace_back();
  made.uuid = uuid;
  return made;
}

std::vector<snapshot::Process> joined_processes(const JoinInput& input) {
  std::map<std::uint32_t, snapshot::Process> rows;
  std::vector<snapshot::Process> unknown;  // seats without a known pid on the host
  for (std::size_t l = 0; l < input.ledgers.size(); ++l) {
    const LedgerSnapshot& ledger = input.ledgers[l];
    for (std::size_t s = 0; s < ledger.seats.size(); ++s) {
      const Seat& seat = ledger.seats[s];
      const std::uint32_t pid = input.host_pid(l, s);
      snapshot::Process& row = pid != 0 ? row_of(rows, pid, input) : unknown.emplace_back();
      if (pid != seat.identity.pid) row.pid_in_share = seat.identity.pid;
      row.share = ledger.share.name;
      row.claimed = input.claimed.contains(pid);
      row.level = ledger.share.level;
      if (row.command.empty()) row.command = seat.command;
      for (std::size_t d = 0; d < ledger.share.devices.size(); ++d) {
        // A slot covers all GPUs of its share. A GPU that the process does not use gets no row.
        if (seat.bytes[d] == 0) continue;
        snapshot::ProcessDevice& device = device_of(row, ledger.share.devices[d].uuid);
        device.ledger_bytes = saturating_add(device.ledger_bytes, seat.bytes[d]);
        if (d < seat.unexplained.size())
          device.unexplained_bytes = saturating_add(device.unexplained_bytes, seat.unexplained[d]);
      }
    }
  }
  for (const DriverProcess& process : input.driver.processes) {
    snapshot::ProcessDevice& device = device_of(row_of(rows, process.pid, input), process.uuid);
    device.driver_bytes = process.bytes;
    device.busy_ratio = process.busy_ratio;
    device.mps = process.mps;
  }
  std::vector<snapshot::Process> all = std::move(unknown);
  for (auto& [pid, row] : rows) all.push_back(std::move(row));
  std::ranges::sort(all, [](const auto& a, const auto& b) {
    // Processes outside every share come last.
    return std::tuple(a.share.empty(), a.share, a.pid) < std::tuple(b.share.empty(), b.share, b.pid);
  });
  return all;
}

void fill_gpu(snapshot::Gpu& gpu, const std::vector<snapshot::Share>& shares) {
  for (const snapshot::Share& share : shares) {
    for (const auto& device : share.devices) {
      if (device.uuid != gpu.uuid) continue;
      // What a damaged page says must not hide what others use, and promises nothing.
      const bool damaged = !share.problem.empty();
      const std::uint64_t used = damaged ? 0 : device.memory_used_bytes;
      // A share that no daemon made promises nothing while it has no processes (cli/view/free.cpp counts the same).
      const bool unused = share.state == "empty" && !share.created && share.created_unix_ns == 0;
      const std::uint64_t limit = damaged || unused ? 0 : device.memory_limit_bytes.value_or(0);
      gpu.memory_committed_bytes = saturating_add(gpu.memory_committed_bytes, limit);
      gpu.unlimited_shares += !unused && !device.memory_limit_bytes;
      gpu.memory_shares_bytes =
          saturating_add(gpu.memory_shares_bytes, saturating_sub(used, device.memory_frozen_bytes));
      gpu.compute_committed_ratio += device.compute_guarantee_ratio;
    }
  }
  // No card has more in use than it has, whatever a page says before it is found to be damaged.
  if (gpu.memory_total_bytes != 0) gpu.memory_shares_bytes = std::min(gpu.memory_shares_bytes, gpu.memory_total_bytes);
  gpu.memory_unattributed_bytes = saturating_sub(gpu.memory_used_bytes, gpu.memory_shares_bytes);
}

// Whatever a page says, nothing on a card is larger than the card. A limit may be larger if its owner asked for that,
// but not a damaged page's.
void keep_within_cards(const std::vector<snapshot::Gpu>& gpus, std::vector<snapshot::Share>& shares,
                       std::vector<snapshot::Process>& processes) {
  std::map<std::string_view, std::uint64_t> total;
  for (const snapshot::Gpu& gpu : gpus)
    if (gpu.memory_total_bytes != 0) total[gpu.uuid] = gpu.memory_total_bytes;
  const auto cut = [&](std::uint64_t& bytes, const std::string& uuid) {
    if (const auto card = total.find(uuid); card != total.end()) bytes = std::min(bytes, card->second);
  };
  for (snapshot::Share& share : shares) {
    for (snapshot::ShareDevice& device : share.devices) {
      for (std::uint64_t* bytes : {&device.memory_used_bytes, &device.memory_peak_bytes, &device.memory_residual_bytes,
                                   &device.memory_draining_bytes, &device.memory_frozen_bytes})
        cut(*bytes, device.uuid);
      if (device.memory_limit_bytes && !share.problem.empty()) cut(*device.memory_limit_bytes, device.uuid);
    }
  }
  for (snapshot::Process& process : processes) {
    for (snapshot::ProcessDevice& device : process.devices) cut(device.ledger_bytes, device.uuid);
  }
}

// Computes the part of a GPU that a share's clients of an MPS server have together, and marks them. If the thread
// percentage of each process on the GPU is known, that is the ceiling, not the time that the limiter gives.
void hold_by_mps(const JoinInput& input, std::vector<snapshot::Share>& shares,
                 std::vector<snapshot::Process>& processes) {
  for (std::size_t l = 0; l < input.ledgers.size(); ++l) {
    const LedgerSnapshot& ledger = input.ledgers[l];
    const auto share = std::ranges::find(shares, ledger.share.name, &snapshot::Share::name);
    std::uint32_t held = 0;
    for (std::size_t d = 0; share != shares.end() && d < share->devices.size(); ++d) {
      snapshot::ShareDevice& device = share->devices[d];
      std::uint32_t percent = 0, present = 0, known = 0;
      for (std::size_t s = 0; s < ledger.seats.size(); ++s) {
        const std::uint32_t pid = input.host_pid(l, s);
        const DriverProcess* const on = pid == 0 ? nullptr : input.driver.process_on(device.uuid, pid);
        if (on == nullptr) continue;
        ++present;
        if (!on->mps || d >= ledger.seats[s].sm_percent.size() || ledger.seats[s].sm_percent[d] == 0) continue;
        ++known;
        percent += ledger.seats[s].sm_percent[d];
        const auto row = std::ranges::find(processes, pid, &snapshot::Process::pid);
        if (row != processes.end() && device.compute_ceiling_ratio < 1) row->level = "mps";
      }
      if (present == 0 || known < present) continue;
      device.sm_ratio = std::min(percent, 100u) / 100.0;
      // Clients that would have more than the ceiling together have their time one after the other.
      const bool at_once = percent <= std::lround(device.compute_ceiling_ratio * 100);
      const double part = std::min(percent / (at_once ? 100.0 : 100.0 * known), 1.0);
      if (device.held_ratio) device.sm_held_ratio = *device.held_ratio * part;
      if (device.compute_ceiling_ratio < 1) ++held;
    }
    const bool all = std::ranges::all_of(
        processes, [&](const auto& process) { return process.share != ledger.share.name || process.level == "mps"; });
    if (held > 0 && all) share->level = "mps";
  }
}

// Raises the level of processes whose memory the driver holds too, and of shares with such processes alone; writes the
// driver's limits and counts. A share may have several cgroups: each has the limit, and the share's account the sum.
void hold_by_driver(const JoinInput& input, std::vector<snapshot::Share>& shares,
                    std::vector<snapshot::Process>& processes) {
  std::map<std::pair<std::uint32_t, std::string>, bool> held;  // by process and GPU
  for (const Fence& fence : input.fences) {
    const auto share = std::ranges::find(shares, fence.target.share, &snapshot::Share::name);
    if (share == shares.end()) continue;
    if (!fence.holds) share->driver_problem = fence.problem;
    const auto device = std::ranges::find(share->devices, fence.target.uuid, &snapshot::ShareDevice::uuid);
    if (!fence.holds || device == share->devices.end()) continue;
    device->driver_limit_bytes = std::max(device->driver_limit_bytes.value_or(0), fence.limit_bytes);
    device->driver_used_bytes = saturating_add(device->driver_used_bytes.value_or(0), fence.used_bytes);
    for (const std::uint32_t pid : fence.target.pids) held[{pid, fence.target.uuid}] = true;
  }
  for (snapshot::Share& share : shares) {
    const auto is_held = [&](const snapshot::Process& process) {
      return std::ranges::all_of(share.devices, [&](const snapshot::ShareDevice& device) {
        return device.memory_limit_bytes && held.contains({process.pid, device.uuid});
      });
    };
    std::size_t count = 0, all = 0;
    for (snapshot::Process& process : processes) {
      if (process.share != share.name) continue;
      ++all;
      if (!process.level.starts_with("hook") || !is_held(process)) continue;
      process.level = "hook+driver";
      ++count;
    }
    if (count > 0 && count == all && share.level.starts_with("hook")) share.level = "hook+driver";
  }
}

void count_mps_clients(snapshot::Gpu& gpu, const std::vector<snapshot::Process>& processes) {
  for (const snapshot::Process& process : processes) {
    if (process.share.empty()) continue;
    gpu.mps_clients += static_cast<std::uint32_t>(std::ranges::count_if(
        process.devices, [&](const auto& device) { return device.mps && device.uuid == gpu.uuid; }));
  }
}

std::string weakest(const std::vector<snapshot::Share>& shares) {
  constexpr std::string_view kOrder[] = {"observe", "hook", "hook+container", "hook+driver", "mps", "mig"};
  for (const auto level : kOrder) {
    if (std::ranges::any_of(shares, [&](const auto& share) { return share.level == level; })) return std::string(level);
  }
  return "hook";
}

}  // namespace

Snapshot join(const JoinInput& input, const RecentSnapshots& before) {
  Snapshot snapshot;
  snapshot.taken_ns = input.taken_ns;
  snapshot.taken_unix_ns = input.taken_unix_ns;
  snapshot.node = input.node;
  snapshot.node.driver_version = input.driver.driver_version;
  snapshot.processes = joined_processes(input);
  const DriverActivity driver(input, snapshot.processes);
  for (const LedgerSnapshot& ledger : input.ledgers)
    snapshot.shares.push_back(joined_share(ledger, before, input, driver));
  std::ranges::sort(snapshot.shares, {}, &snapshot::Share::name);
  hold_by_mps(input, snapshot.shares, snapshot.processes);
  hold_by_driver(input, snapshot.shares, snapshot.processes);
  snapshot.gpus = input.driver.gpus;
  keep_within_cards(snapshot.gpus, snapshot.shares, snapshot.processes);
  for (auto& gpu : snapshot.gpus) fill_gpu(gpu, snapshot.shares), count_mps_clients(gpu, snapshot.processes);
  snapshot::Node& node = snapshot.node;
  node.gpus = static_cast<std::uint32_t>(snapshot.gpus.size());
  node.shares = static_cast<std::uint32_t>(snapshot.shares.size());
  node.processes = static_cast<std::uint32_t>(snapshot.processes.size());
  node.unattended_processes = static_cast<std::uint32_t>(
      std::ranges::count_if(snapshot.processes, [](const auto& p) { return p.share.empty(); }));
  node.level = weakest(snapshot.shares);
  return snapshot;
}

}  // namespace headgate::observe
