#include "sim/truth.hpp"

#include <algorithm>

#include "sim/node.hpp"

namespace headgate::sim {
namespace {

static_assert(kTruthBucketNs == kBucketNs);

HeldHistory copy_history(const History& history, std::uint64_t since_ns, std::uint64_t now_ns) {
  const std::uint64_t last = now_ns / kBucketNs;
  const std::uint64_t kept = last + 1 - std::min<std::uint64_t>(last + 1, kHistoryBuckets);
  HeldHistory copy;
  copy.first_bucket = std::max(kept, since_ns / kBucketNs);
  for (std::uint64_t i = copy.first_bucket; i <= last; ++i) copy.held_ns.push_back(held_in_bucket(history, i));
  return copy;
}

ProcessTruth read_account(const State& state, std::uint32_t a) {
  const Account& account = state.accounts[a];
  const Counters& counters = state.counters[a];
  ProcessTruth truth;
  truth.pid = account.pid;
  truth.start_time = account.start_time;
  truth.comm = account.comm;
  truth.alive = account.used == 1;
  truth.birth_ns = account.birth_ns;
  truth.death_ns = account.death_ns;
  truth.contexts = account.contexts;
  truth.bytes = account.bytes;
  truth.peak_bytes = account.peak_bytes;
  truth.slack_bytes = account.slack_bytes;
  truth.context_bytes = account.context_bytes;
  truth.held_ns = account.held_ns;
  truth.sm_ns = static_cast<double>(account.sm_ns_sms) / std::max(state.profile.sm_count, 1u);
  truth.copy_ns = account.copy_ns;
  truth.kernels = account.kernels;
  truth.spin_ns = account.spin_ns;
  truth.overlaps = account.overlaps;
  truth.launches = counters.launches.load(std::memory_order_relaxed);
  truth.records = counters.records.load(std::memory_order_relaxed);
  truth.event_queries = counters.event_queries.load(std::memory_order_relaxed);
  truth.stream_queries = counters.stream_queries.load(std::memory_order_relaxed);
  truth.synchronisations = counters.synchronisations.load(std::memory_order_relaxed);
  truth.elapsed_times = counters.elapsed_times.load(std::memory_order_relaxed);
  truth.copies = counters.copies.load(std::memory_order_relaxed);
  truth.allocations = counters.allocations.load(std::memory_order_relaxed);
  truth.history = copy_history(state.history[a], account.birth_ns, state.now_ns);
  return truth;
}

DeviceTruth read_device(const State& state, std::uint32_t d) {
  const Profile& profile = state.profile;
  DeviceTruth truth;
  truth.index = d;
  truth.model = profile.model;
  truth.uuid = uuid_text(profile, d).data();
  truth.sm_count = profile.sm_count;
  truth.memory_bytes = profile.memory_bytes;
  truth.reserved_bytes = profile.reserved_bytes;
  truth.used_bytes = state.devices[d].bytes;
  truth.busy_ns = state.devices[d].busy_ns;
  truth.history = copy_history(state.device_history[d], 0, state.now_ns);
  for (std::uint32_t a = 0; a < kMaxAccounts; ++a) {
    if (state.accounts[a].used && state.accounts[a].device == d) truth.processes.push_back(read_account(state, a));
  }
  std::ranges::stable_sort(truth.processes, {}, &ProcessTruth::birth_ns);
  return truth;
}

std::vector<SettingTruth> read_settings(const State& state) {
  std::vector<SettingTruth> settings;
  const std::uint64_t count = state.nvml_setting_count;
  for (std::uint64_t i = count > kMaxNvmlSettings ? count - kMaxNvmlSettings : 0; i < count; ++i) {
    const NvmlSetting& one = state.nvml_settings[i % kMaxNvmlSettings];
    settings.push_back(
        {one.at_ns, one.pid, one.uid, one.device, one.function, one.value, one.second_value, one.answer});
  }
  return settings;
}

}  // namespace

std::uint64_t HeldHistory::between(std::uint64_t from_bucket, std::uint64_t to_bucket) const {
  std::uint64_t sum = 0;
  const std::uint64_t end = std::min(to_bucket, first_bucket + held_ns.size());
  for (std::uint64_t i = std::max(from_bucket, first_bucket); i < end; ++i) sum += held_ns[i - first_bucket];
  return sum;
}

Result<Truth> read_truth(const std::string& directory) {
  auto node = TRY(Node::open_existing(directory));
  node->reap();
  Node::Locked locked(*node);
  const State& state = node->state();
  Truth truth;
  truth.profile = state.profile.name;
  truth.now_ns = state.now_ns;
  for (std::uint32_t d = 0; d < state.device_count; ++d) truth.devices.push_back(read_device(state, d));
  truth.settings = read_settings(state);
  return truth;
}

Result<void> reset_truth(const std::string& directory) {
  auto node = TRY(Node::open_existing(directory));
  node->reap();
  Node::Locked locked(*node);
  locked->reset_accounts();
  return {};
}

}  // namespace headgate::sim
