#include "exactness/fluid.hpp"

#include <algorithm>
#include <utility>

namespace headgate::limiter::model {
std::vector<double> fair_parts(std::span<const Claim> claims, const std::vector<bool>& wants) {
  std::vector<double> parts(claims.size());
  double left = 1;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (wants[i]) parts[i] = std::min(claims[i].promise, claims[i].ceiling);
    left -= parts[i];
  }
  // Each round fills at least one share to its ceiling, or ends.
  while (left > 1e-12) {
    double weights = 0, level = left;
    for (std::size_t i = 0; i < claims.size(); ++i)
      if (wants[i] && parts[i] < claims[i].ceiling) weights += claims[i].weight;
    if (weights == 0) break;
    for (std::size_t i = 0; i < claims.size(); ++i)
      if (wants[i] && parts[i] < claims[i].ceiling)
        level = std::min(level, (claims[i].ceiling - parts[i]) / claims[i].weight * weights);
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (!wants[i] || parts[i] >= claims[i].ceiling) continue;
      const double more = level * claims[i].weight / weights;
      parts[i] = claims[i].ceiling - parts[i] - more < 1e-12 ? claims[i].ceiling : parts[i] + more;
    }
    left -= level;
  }
  return parts;
}

Fluid::Fluid(std::vector<FluidShare> shares) : shares_(std::move(shares)), had_ns_(shares_.size()) {
  for (const FluidShare& share : shares_) {
    auto& all = progress_.emplace_back();
    for (const Demand& demand : share.processes)
      all.push_back({.left_ns = static_cast<double>(demand.work_ns), .due_ns = demand.from_ns});
  }
}

bool Fluid::has_work(std::size_t share, std::size_t process) const {
  const Demand& demand = shares_[share].processes[process];
  const Progress& progress = progress_[share][process];
  return !progress.ended && !shares_[share].paused && now_ns_ >= progress.due_ns && now_ns_ < demand.until_ns;
}

void Fluid::end_process(std::size_t share) {
  for (Progress& each : progress_[share])
    if (!std::exchange(each.ended, true)) return;
}

void Fluid::run(std::int64_t until_ns) {
  std::vector<Claim> claims;
  for (const FluidShare& share : shares_) claims.push_back(share.claim);
  std::vector<bool> wants(shares_.size());
  while (now_ns_ < until_ns) {
    std::vector<int> busy(shares_.size());
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      for (std::size_t p = 0; p < progress_[i].size(); ++p) busy[i] += has_work(i, p);
      wants[i] = busy[i] > 0;
    }
    const std::vector<double> parts = fair_parts(claims, wants);
    const std::int64_t next_ns = std::min(until_ns, next_change_ns(parts, busy));
    for (std::size_t i = 0; i < shares_.size(); ++i)
      for (std::size_t p = 0; p < progress_[i].size(); ++p)
        if (has_work(i, p)) serve(i, p, parts[i] * static_cast<double>(next_ns - now_ns_) / busy[i], next_ns);
    now_ns_ = next_ns;
  }
}

// Returns when a process next begins, ends, or finishes its work.
std::int64_t Fluid::next_change_ns(std::span<const double> parts, std::span<const int> busy) const {
  std::int64_t next_ns = INT64_MAX;
  for (std::size_t i = 0; i < shares_.size(); ++i)
    for (std::size_t p = 0; p < progress_[i].size(); ++p) {
      const Demand& demand = shares_[i].processes[p];
      const Progress& progress = progress_[i][p];
      if (progress.due_ns > now_ns_) next_ns = std::min(next_ns, progress.due_ns);
      if (demand.until_ns > now_ns_) next_ns = std::min(next_ns, demand.until_ns);
      if (demand.work_ns == 0 || parts[i] <= 0 || !has_work(i, p)) continue;
      const double done_ns = progress.left_ns * busy[i] / parts[i];
      next_ns = std::min(next_ns, now_ns_ + std::max<std::int64_t>(1, static_cast<std::int64_t>(done_ns)));
    }
  return next_ns;
}

void Fluid::serve(std::size_t share, std::size_t process, double served_ns, std::int64_t end_ns) {
  const Demand& demand = shares_[share].processes[process];
  Progress& progress = progress_[share][process];
  had_ns_[share] += served_ns;
  if (demand.work_ns == 0) return;
  progress.left_ns -= served_ns;
  if (progress.left_ns > 1) return;
  progress.left_ns = static_cast<double>(demand.work_ns);
  progress.due_ns = demand.every_ns != 0 ? std::max(progress.due_ns + demand.every_ns, end_ns) : end_ns + demand.gap_ns;
}

}  // namespace headgate::limiter::model
