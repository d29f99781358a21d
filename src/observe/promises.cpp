#include "observe/promises.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/units.hpp"
#include "observe/audit_text.hpp"

namespace headgate::observe {
namespace {

using snapshot::Share;
using snapshot::ShareDevice;
using snapshot::Snapshot;

constexpr std::uint64_t kLongLaunchNs = 20'000'000;
constexpr double kAtWork = 0.02, kBusy = 0.05;

double promised_of(const Share& share, const ShareDevice& device) {
  return share.overcommit ? 0 : device.compute_guarantee_ratio;
}

// An account proves nothing if the work is not measured or a tenant has written in its page.
bool is_told(const Share& share, const ShareDevice& device) { return device.metered && share.problem.empty(); }

int rank_of(std::string_view priority_class) {
  return priority_class == "latency" ? 2 : priority_class == "best-effort" ? 0 : 1;
}

const snapshot::Gpu* gpu_of(const Snapshot& now, const std::string& uuid) {
  const auto found = std::ranges::find(now.gpus, uuid, &snapshot::Gpu::uuid);
  return found == now.gpus.end() ? nullptr : &*found;
}

// The part of the time in which programs that no share measures kept the GPU busy, as the driver says: programs in no
// share, and in shares that do not measure their work. 0 where it is too little to go by.
double used_outside(const Snapshot& now, const std::string& uuid) {
  const auto unmetered = [&](const std::string& name) {
    const auto share = std::ranges::find(now.shares, name, &Share::name);
    if (share == now.shares.end()) return true;
    const auto device = std::ranges::find(share->devices, uuid, &ShareDevice::uuid);
    return device == share->devices.end() || !device->metered;
  };
  double used = 0;
  for (const snapshot::Process& process : now.processes)
    for (const snapshot::ProcessDevice& device : process.devices)
      if (device.uuid == uuid && device.busy_ratio.value_or(0) > kBusy && unmetered(process.share))
        used += *device.busy_ratio;
  return std::min(used, 1.0);
}

std::string percent(double ratio) {
  const auto tenths = std::lround(ratio * 1000);
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + " %";
}

// The causes in the order in which they are looked at; the figures in a text may change while the cause stays.
enum class Why : unsigned char {
  paused,
  off,
  priority,
  overcommitted,
  latency,
  outside,
  long_launch,
  memory,
  ceiling,
  late,
  unknown
};

struct Cause {
  Why why;
  std::string text;
};

// The shares beside the one that lacks something, as the windows know them. Names stay out: they are their owners'
// affair.
struct Other {
  const Share* share;
  const ShareDevice* device;
  PromiseWindow::Figures figures;
};

// The first that applies. A paused share would have nothing whatever else holds.
Cause cause_of(const Snapshot& now, const Share& share, const ShareDevice& device,
               const PromiseWindow::Figures& figures, const std::vector<Other>& others) {
  if (share.state.starts_with("paused")) return {Why::paused, "the share is paused"};
  const snapshot::Gpu* const gpu = gpu_of(now, device.uuid);
  const std::string policy = gpu == nullptr ? "" : gpu->policy_in_force;
  if (policy == "off")
    return {Why::off, "the GPU's policy is off" +
                          std::string(gpu->mps_clients > 0 ? " while programs are clients of an MPS server" : "") +
                          ": promises are not kept there"};
  const auto any = [&](auto&& test) { return std::ranges::any_of(others, test); };
  if (policy == "priority" && any([&](const Other& other) {
        return rank_of(other.device->priority_class) > rank_of(device.priority_class) &&
               other.figures.had_ratio > kAtWork;
      }))
    return {Why::priority, "the GPU's policy is priority, and a share of a higher class is at work"};
  if (gpu != nullptr && gpu->compute_committed_ratio > 1.0001)
    return {Why::overcommitted, "more than 100 % of the GPU is promised: " + percent(gpu->compute_committed_ratio)};
  if (any([&](const Other& other) {
        return other.device->priority_class == "latency" && other.figures.had_ratio >= figures.short_ratio;
      }))
    return {Why::latency, "a share of class latency, which is never kept waiting, takes it"};
  if (used_outside(now, device.uuid) > 0) return {Why::outside, "work that no share measures keeps the GPU busy"};
  std::uint64_t longest_ns = 0;
  for (const Other& other : others)
    if (other.figures.had_ratio >= figures.short_ratio) longest_ns = std::max(longest_ns, other.figures.launch_ns);
  if (longest_ns > kLongLaunchNs)
    return {Why::long_launch, "each launch of another share keeps the GPU for " + duration_text(longest_ns) +
                                  ", and a kernel is not interrupted"};
  if (share.state == "full") return {Why::memory, "an allocation of the share waits for memory, or its memory is full"};
  if (device.waits_for == "ceiling" && device.compute_ceiling_ratio < 1)
    return {Why::ceiling, "its launches wait for its own ceiling of " + percent(device.compute_ceiling_ratio)};
  if (figures.late) return {Why::late, "the daemon did not run for a while, and gave no turns"};
  return {Why::unknown, "unknown"};
}

snapshot::Event event_of(const Snapshot& now, const Share& share, const ShareDevice& device,
                         const PromiseWindow::Figures& figures, const std::string& cause) {
  return {.kind = "share.short",
          .severity = "warn",
          .share = share.name,
          .uuid = device.uuid,
          .uid = share.owner_uid,
          .owner_uid = share.owner_uid,
          .text = share.name + " is promised " + percent(figures.promised_ratio) + " and had " +
                  percent(figures.had_ratio) + format_gpu(now, device.uuid) + " in the last 10 s, wanting it " +
                  percent(figures.wanted_ratio) + " of the time: " + cause};
}

double sm_part_of(const ShareDevice& device) {
  const double held = device.held_ratio.value_or(0);
  return device.sm_held_ratio && held > 0 ? *device.sm_held_ratio / held : 1;
}

// Tenants write their accounts, so a total may change by any amount.
double moved(std::uint64_t now, std::uint64_t before) {
  return now >= before ? static_cast<double>(now - before) : -static_cast<double>(before - now);
}

}  // namespace

void Promises::sample(Snapshot& now, const Wanted& wanted, std::map<Key, std::uint64_t>& passed) {
  for (auto& [key, track] : tracks_) track.seen = false;
  for (const Share& share : now.shares) {
    for (const ShareDevice& device : share.devices) {
      if (!is_told(share, device)) continue;
      const Key key{share.name, device.uuid};
      Track& track = tracks_[key];
      if (track.generation != share.generation) track = Track();
      track.generation = share.generation;
      track.seen = true;
      const snapshot::Gpu* const gpu = gpu_of(now, device.uuid);
      const std::uint64_t passed_ns = track.window.add({.taken_ns = now.taken_ns,
                                                        .held_ns = device.held_ns,
                                                        .neighbours_ns = device.neighbours_ns,
                                                        .wanted_ns = wanted(share.name, device.uuid),
                                                        .used_outside_ratio = used_outside(now, device.uuid),
                                                        .launches = device.launches,
                                                        .promised_ratio = promised_of(share, device),
                                                        .sm_part = sm_part_of(device),
                                                        .turns = gpu == nullptr || gpu->policy_in_force != "off"});
      if (passed_ns > 0) passed[key] = passed_ns;
    }
  }
  std::erase_if(tracks_, [](const auto& entry) { return !entry.second.seen; });
}

std::vector<snapshot::Event> Promises::look(Snapshot& now, const Wanted& wanted) {
  std::map<Key, std::uint64_t> passed;
  sample(now, wanted, passed);
  std::vector<snapshot::Event> events;
  for (const Share& share : now.shares) {
    for (const ShareDevice& device : share.devices) {
      const Key key{share.name, device.uuid};
      const auto step = passed.find(key);
      if (step == passed.end()) continue;
      Track& track = tracks_.at(key);
      const PromiseWindow::Figures figures = track.window.figures();
      if (figures.short_ratio <= kShortRatio) {
        track.cause.clear();
        track.kept_ns += step->second;
        if (track.kept_ns >= PromiseWindow::kSpanNs) track.told.reset();
        continue;
      }
      track.kept_ns = 0;
      std::vector<Other> others;
      for (const Share& other : now.shares) {
        for (const ShareDevice& on : other.devices) {
          if (&other == &share || on.uuid != device.uuid) continue;
          const auto known = tracks_.find({other.name, on.uuid});
          if (known != tracks_.end()) others.push_back({&other, &on, known->second.window.figures()});
        }
      }
      const Cause cause = cause_of(now, share, device, figures, others);
      track.cause = cause.text;
      const double of_late = track.window.figures(PromiseWindow::kSpanNs / 2).short_ratio;
      if (figures.span_ns < PromiseWindow::kSpanNs || of_late <= kShortRatio) continue;
      const auto why = static_cast<std::size_t>(cause.why);
      if (track.told.test(why) || (cause.why == Why::unknown && track.told.any())) continue;
      track.told.set(why);
      events.push_back(event_of(now, share, device, figures, track.cause));
    }
  }
  fill(now);
  return events;
}

void Promises::fill(Snapshot& now) const {
  for (Share& share : now.shares) {
    for (ShareDevice& device : share.devices) {
      const auto known = tracks_.find({share.name, device.uuid});
      if (known == tracks_.end() || known->second.generation != share.generation) continue;
      const PromiseWindow::Figures figures = known->second.window.figures();
      device.short_ns = known->second.window.short_ns();
      if (figures.span_ns == 0) continue;
      device.had_ratio = figures.had_ratio;
      device.wanted_ratio = figures.wanted_ratio;
      device.short_ratio = figures.short_ratio;
      device.short_cause = known->second.cause;
    }
  }
}

std::uint64_t PromiseWindow::add(const PromiseSample& sample) {
  if (count_ > 0 && sample.taken_ns < last_.taken_ns + kApartNs) return 0;
  // The arbiter counts from when the share was added to it: a total that goes back is a new count.
  if (count_ > 0 && sample.wanted_ns < last_.wanted_ns) count_ = 0;
  if (count_ == 0) {
    push({.taken_ns = sample.taken_ns});
    last_ = sample;
    wanted_rate_ = 0;
    return 0;
  }
  const auto passed_ns = static_cast<double>(sample.taken_ns - last_.taken_ns);
  // An account takes slices that work outside all accounts had for its own: nothing tells it of them. The work was
  // wanted for all of that time.
  const double accounted_ns = moved(sample.held_ns, last_.held_ns);
  const double held_ns = std::min(accounted_ns, passed_ns * (1 - sample.used_outside_ratio));
  const bool late = sample.taken_ns - last_.taken_ns > kLateNs;
  // What is held is wanted: the arbiter looks seldom while no other share wants the GPU. Without turns it does not look
  // at all, and work that waited for the GPU is what the account has given back to others.
  double wanted_ns = std::max(static_cast<double>(sample.wanted_ns - last_.wanted_ns), accounted_ns);
  if (!sample.turns)
    wanted_ns = std::max(wanted_ns, accounted_ns + std::max(0.0, moved(sample.neighbours_ns, last_.neighbours_ns)));
  // While the daemon does not run there is no count, so take the share to want what it wanted before.
  const double wanted = std::clamp(late ? std::max(wanted_rate_ * passed_ns, accounted_ns) : wanted_ns, 0.0, passed_ns);
  wanted_rate_ = wanted / passed_ns;
  const Point& before = point(0);
  push({.taken_ns = sample.taken_ns,
        .launches = before.launches + (sample.launches - std::min(sample.launches, last_.launches)),
        .held_ns = before.held_ns + held_ns,
        .had_ns = before.had_ns + held_ns * sample.sm_part,
        .wanted_ns = before.wanted_ns + wanted,
        .owed_ns = before.owed_ns + wanted * sample.promised_ratio,
        .late = late});
  last_ = sample;
  short_ns_ += figures().short_ratio * passed_ns;
  return static_cast<std::uint64_t>(passed_ns);
}

void PromiseWindow::push(const Point& point) {
  newest_ = (newest_ + 1) % kMaxPoints;
  points_[newest_] = point;
  count_ = std::min(count_ + 1, kMaxPoints);
}

// Returns the youngest point that is a span old, or else the oldest.
const PromiseWindow::Point& PromiseWindow::oldest(std::uint64_t span_ns) const {
  std::size_t age = 0;
  while (age + 1 < count_ && point(0).taken_ns - point(age).taken_ns < span_ns) ++age;
  return point(age);
}

PromiseWindow::Figures PromiseWindow::figures(std::uint64_t most_ns) const {
  Figures figures{.promised_ratio = last_.promised_ratio};
  if (count_ < 2) return figures;
  const Point &from = oldest(most_ns), &to = point(0);
  figures.span_ns = to.taken_ns - from.taken_ns;
  const auto span_ns = static_cast<double>(figures.span_ns);
  const auto ratio = [span_ns](double ns) { return std::clamp(ns / span_ns, 0.0, 1.0); };
  figures.had_ratio = ratio(to.had_ns - from.had_ns);
  figures.wanted_ratio = std::max(ratio(to.wanted_ns - from.wanted_ns), figures.had_ratio);
  figures.owed_ratio = ratio(to.owed_ns - from.owed_ns);
  figures.short_ratio = std::max(0.0, figures.owed_ratio - figures.had_ratio);
  const std::uint64_t launches = to.launches - from.launches;
  if (launches > 0)
    figures.launch_ns = static_cast<std::uint64_t>(ratio(to.held_ns - from.held_ns) * span_ns) / launches;
  for (std::size_t age = 0; age + 1 < count_ && point(age).taken_ns > from.taken_ns; ++age)
    figures.late |= point(age).late;
  return figures;
}

}  // namespace headgate::observe
