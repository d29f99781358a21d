#include "power/resolve.hpp"

#include <algorithm>
#include <numeric>

namespace headgate::power {
namespace {

std::string gpu_name(const GpuLimits& gpu) { return "GPU " + std::to_string(gpu.index); }

Result<PowerRange> range_of(const GpuLimits& gpu) {
  if (gpu.range) return *gpu.range;
  return fail(ErrorCode::unsupported, gpu_name(gpu) + ": the driver does not tell the range of its power limit",
              "give the limit in watts");
}

std::string range_text(const PowerRange& range) { return watts_text(range.min_mw) + " to " + watts_text(range.max_mw); }

Result<std::uint32_t> limit_of(const config::PowerLimit& wanted, const GpuLimits& gpu) {
  std::uint64_t limit_mw = wanted.value;
  if (wanted.kind == config::PowerLimit::Kind::of_maximum)
    limit_mw = (TRY(range_of(gpu)).max_mw * std::uint64_t{wanted.value} + 50'000) / 100'000;
  if (wanted.kind == config::PowerLimit::Kind::standard) {
    if (!gpu.default_mw)
      return fail(ErrorCode::unsupported, gpu_name(gpu) + ": the driver does not tell the default of its power limit",
                  "give the limit in watts");
    limit_mw = *gpu.default_mw;
  }
  if (gpu.range && (limit_mw < gpu.range->min_mw || limit_mw > gpu.range->max_mw))
    return fail(ErrorCode::usage, gpu_name(gpu) + ": power limit " + watts_text(limit_mw) + " is out of range",
                "accepted: " + range_text(*gpu.range));
  return static_cast<std::uint32_t>(limit_mw);
}

std::optional<ClockRange> clocks_of(const std::optional<config::Range>& mhz) {
  return mhz ? std::optional(ClockRange{mhz->least, mhz->most}) : std::nullopt;
}

}  // namespace

Result<std::vector<std::uint32_t>> split_budget(std::uint32_t budget_mw, const std::vector<BudgetPart>& parts) {
  std::uint64_t least = 0;
  for (const BudgetPart& part : parts) least += part.range.min_mw;
  if (least > budget_mw)
    return fail(ErrorCode::usage, "a budget of " + watts_text(budget_mw) + " is less than these GPUs can be held to",
                "accepted: at least " + watts_text(least));
  // Each GPU gets its weight times a common factor, clamped to its range. Bisects for the greatest factor within
  // budget.
  const auto limits_at = [&parts](double per_weight) {
    std::vector<std::uint32_t> limits;
    for (const BudgetPart& part : parts)
      limits.push_back(static_cast<std::uint32_t>(
          std::clamp<double>(per_weight * part.weight, part.range.min_mw, part.range.max_mw)));
    return limits;
  };
  double low = 0, high = UINT32_MAX;
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    const auto limits = limits_at(middle);
    (std::accumulate(limits.begin(), limits.end(), std::uint64_t{0}) <= budget_mw ? low : high) = middle;
  }
  return limits_at(low);
}

Result<SettingsByGpu> resolve(const config::PowerSettings& wanted, const std::vector<GpuLimits>& gpus) {
  TRY(config::check_power_settings(wanted));
  std::vector<std::uint32_t> parts;
  if (wanted.budget_mw) {
    if (wanted.weights.size() > gpus.size())
      return fail(ErrorCode::usage, "weights has more entries than GPUs", "one for each GPU, in their order");
    std::vector<BudgetPart> of;
    for (std::size_t i = 0; i < gpus.size(); ++i)
      of.push_back({.weight = i < wanted.weights.size() ? wanted.weights[i] : 1, .range = TRY(range_of(gpus[i]))});
    parts = TRY(split_budget(*wanted.budget_mw, of));
  }
  SettingsByGpu all;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    Settings& settings = all[gpus[i].uuid];
    if (wanted.budget_mw) settings.power_limit_mw = parts[i];
    if (wanted.power_limit) settings.power_limit_mw = TRY(limit_of(*wanted.power_limit, gpus[i]));
    settings.persistence = wanted.persistence;
    settings.compute_mode = wanted.compute_mode;
    settings.time_slice = wanted.time_slice;
    settings.gpu_clocks = clocks_of(wanted.gpu_mhz);
    settings.mem_clocks = clocks_of(wanted.mem_mhz);
  }
  return all;
}

Result<SettingsByGpu> reset_settings(const config::PowerSettings& site, const std::vector<GpuLimits>& gpus) {
  SettingsByGpu all;
  if (!site.empty()) all = TRY(resolve(site, gpus));
  for (const GpuLimits& gpu : gpus) {
    Settings& settings = all[gpu.uuid];
    if (!settings.power_limit_mw) settings.power_limit_mw = gpu.default_mw;
    if (!settings.gpu_clocks) settings.gpu_clocks = ClockRange{};
    if (!settings.mem_clocks) settings.mem_clocks = ClockRange{};
  }
  return all;
}

GpuLimits limits_of(const ControlQueues& queues, std::uint32_t index) {
  const GpuIdentity& gpu = queues.gpu(index).identity();
  return {.index = index, .uuid = gpu.uuid, .range = gpu.limit_range, .default_mw = gpu.default_limit_mw};
}

}  // namespace headgate::power
