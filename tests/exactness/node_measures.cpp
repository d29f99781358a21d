// What the shares of a modelled node had, by the engine's truth.
#include <algorithm>
#include <vector>

#include "exactness/node_tenant.hpp"

namespace headgate::limiter::model {

std::uint64_t Node::truth_ns(std::size_t share, std::uint32_t gpu) const {
  std::uint64_t sum = 0;
  for (const Entry& entry : entries_) {
    if (entry.share != share || entry.gpu != gpu) continue;
    for (const std::size_t index : entry.tenants)
      for (const sim::Account& each : state->accounts)
        if (each.used != 0 && each.pid == static_cast<std::int32_t>(index) + 1) sum += each.held_ns;
  }
  return sum;
}

void Node::mark() {
  marked_ns_ = static_cast<std::int64_t>(state->now_ns);
  marked_.clear();
  marked_kernels_.clear();
  for (std::size_t s = 0; s < setup_.shares.size(); ++s) {
    for (std::uint32_t g = 0; g < setup_.gpus; ++g) marked_.push_back(truth_ns(s, g));
    marked_kernels_.push_back(0);
    marked_kernels_.back() = kernels(s);
  }
}

double Node::held_percent(std::size_t share, std::uint32_t gpu) const {
  const std::uint64_t before = marked_.empty() ? 0 : marked_[share * setup_.gpus + gpu];
  const std::int64_t since_ns = marked_.empty() ? kStartNs : marked_ns_;
  return 100.0 * static_cast<double>(truth_ns(share, gpu) - before) /
         static_cast<double>(static_cast<std::int64_t>(state->now_ns) - since_ns);
}

double Node::used_percent(std::uint32_t gpu) const {
  double sum = 0;
  for (std::size_t s = 0; s < setup_.shares.size(); ++s) sum += held_percent(s, gpu);
  return sum;
}

double Node::copied_percent(std::size_t share) const {
  std::uint64_t sum = 0;
  for (const Entry& entry : entries_)
    for (const std::size_t index : entry.tenants)
      for (const sim::Account& each : state->accounts)
        if (entry.share == share && each.used != 0 && each.pid == static_cast<std::int32_t>(index) + 1)
          sum += each.copy_ns;
  return 100.0 * static_cast<double>(sum) / static_cast<double>(static_cast<std::int64_t>(state->now_ns) - kStartNs);
}

std::uint64_t Node::kernels(std::size_t share) const {
  std::uint64_t sum = 0;
  for (const Entry& entry : entries_) {
    if (entry.share != share) continue;
    for (const std::size_t index : entry.tenants)
      for (const sim::Account& each : state->accounts)
        if (each.used != 0 && each.pid == static_cast<std::int32_t>(index) + 1) sum += each.kernels;
  }
  return sum - (share < marked_kernels_.size() ? marked_kernels_[share] : 0);
}

std::vector<std::int64_t> Node::latencies(std::size_t share) const {
  std::vector<std::int64_t> all;
  for (const Entry& entry : entries_)
    if (entry.share == share)
      for (const std::size_t index : entry.tenants)
        all.insert(all.end(), tenants_[index]->latencies.begin(), tenants_[index]->latencies.end());
  std::ranges::sort(all);
  return all;
}

}  // namespace headgate::limiter::model
