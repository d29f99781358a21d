#include "observe/promise_window.hpp"

#include <algorithm>

namespace headgate::observe {
namespace {

// Tenants write their accounts, so a total may change by any amount.
double moved(std::uint64_t now, std::uint64_t before) {
  return now >= before ? static_cast<double>(now - before) : -static_cast<double>(before - now);
}

}  // namespace

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
