#include "guest/limiter/compute/gate_wait.hpp"

#include <time.h>

#include "guest/bare/text.hpp"
#include "guest/ledger/gate.hpp"
#include "guest/limiter/compute/turns.hpp"
#include "guest/limiter/route/presence.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
namespace {

using std::memory_order_relaxed;

constexpr std::uint32_t kLongWaitEvent = 44;  // of may_say()
// Reporting more often, threads that poll for room would contend for the account's cache line.
constexpr std::int64_t kTellEachNs = 2'000'000;

std::atomic<std::int64_t>& since_of(const ContextMeter& context) {
  return session.usage->slots[session.slot].devices[context.device].long_wait_since_ns;
}

// Formats "25 %", "0.5 %".
void add_percent(bare::Text& text, std::uint32_t ppm) {
  text.add_decimal(ppm / 10'000);
  if (ppm / 1'000 % 10 != 0) text.add('.').add_decimal(ppm / 1'000 % 10);
  text.add(" %");
}

void describe(bare::Text& text, WaitReason reason, std::uint32_t ceiling_ppm) {
  switch (reason) {
    case WaitReason::pause: text.add("the share is paused"); break;
    case WaitReason::turn: text.add("other shares have the GPU"); break;
    case WaitReason::work: text.add("what this process sent before is not done"); break;
    case WaitReason::ceiling:
      text.add("the share has used its ");
      add_percent(text, ceiling_ppm);
      text.add(" of the GPU's time");
  }
}

}  // namespace

GateWait::~GateWait() {
  tell_account();
  // Keep the note of another thread's launch that waits longer; that thread notes itself at its next look.
  std::int64_t mine = asked_ns_;
  if (noted_) since_of(context_).compare_exchange_strong(mine, 0, memory_order_relaxed);
}

void GateWait::waited_until(std::int64_t now_ns) {
  waited_ns_[static_cast<std::uint32_t>(reason_)] += now_ns - told_until_ns_;
  told_until_ns_ = now_ns;
}

void GateWait::tell_account() {
  ledger::ComputeAccount& account = *context_.account;
  std::int64_t all_ns = 0;
  for (std::uint32_t i = 0; i < ledger::kWaitReasons; ++i) {
    if (waited_ns_[i] <= 0) continue;
    account.waited_ns[i].fetch_add(static_cast<std::uint64_t>(waited_ns_[i]), memory_order_relaxed);
    all_ns += waited_ns_[i];
    waited_ns_[i] = 0;
  }
  if (all_ns > 0) account.throttled_ns.fetch_add(static_cast<std::uint64_t>(all_ns), memory_order_relaxed);
}

void GateWait::goes_on(WaitReason reason) {
  const std::int64_t now_ns = port.now_ns();
  // A program inside a call is not idle: its memory must stay where the launch needs it.
  arrive();
  if (begun_) waited_until(now_ns);
  begun_ = true;
  reason_ = reason;
  std::int64_t untold_ns = 0;
  for (const std::int64_t waited_ns : waited_ns_) untold_ns += waited_ns;
  if (untold_ns >= kTellEachNs) tell_account();
  // Until its last kernels have ended, the GPU is the share's own.
  if (reason == WaitReason::turn && !turn_is_ending(context_.device)) context_.pace->set_turn_awaited(now_ns);
  const std::int64_t waited_ns = now_ns - asked_ns_;
  if (waited_ns < ledger::kLongWaitNs) return;
  // Log first: once the wait is noted, its cause may change.
  if (log_wanted(LogLevel::warn) && may_say(kLongWaitEvent)) {
    char why[128];
    bare::Text text(why);
    describe(text, reason, session.policy->devices[context_.device].compute_ceiling_ppm.load(memory_order_relaxed));
    log_line(LogLevel::warn, "share %s: a launch on GPU %u has waited for %lu s: %s", session.held.name,
             context_.device, static_cast<unsigned long>(waited_ns / 1'000'000'000), why);
  }
  std::atomic<std::int64_t>& since = since_of(context_);
  const std::int64_t longest = since.load(memory_order_relaxed);
  if (longest == 0 || longest > asked_ns_) since.store(asked_ns_, memory_order_relaxed), noted_ = true;
}

void GateWait::passes() {
  if (!begun_) return;
  ledger::ComputeAccount& account = *context_.account;
  const std::int64_t now_ns = port.now_ns();
  waited_until(now_ns);
  tell_account();
  const std::int64_t all_ns = now_ns - asked_ns_;
  account.delays.waited[ledger::delay_bucket(all_ns)].fetch_add(1, memory_order_relaxed);
  account.throttled_launches.fetch_add(1, memory_order_relaxed);
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  account.last_throttle_ns.store(
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec),
      memory_order_relaxed);
}

}  // namespace headgate::limiter
