// A kernel that ends in an error ends its context, and nothing else.
#include "sim/engine.hpp"
#include "sim/kernel_faults.hpp"

namespace headgate::sim {

void Engine::fail_context(std::uint32_t c, std::uint32_t error) {
  if (!state_->contexts[c].used || state_->contexts[c].error != 0) return;
  Context& context = change(state_->contexts[c]);
  account_until(context.device, state_->now_ns);
  context.error = error;
  for (std::uint32_t s = context.first_stream; s != kNone; s = state_->links[s].next) {
    stop(s);
    change(state_->streams[s]).dropped_from = state_->streams[s].head + 1;
  }
  if (const KernelFault* fault = kernel_fault(error)) {
    Device& device = change(state_->devices[context.device]);
    device.xids[device.xid_count++ % kKeptXids] = fault->xid;
  }
  ++change(state_->changes);
  commit();
}

// Stops work on the GPU. A host function runs on the CPU, so it continues.
void Engine::stop(std::uint32_t s) {
  Stream& stream = change(state_->streams[s]);
  Context& context = change(state_->contexts[stream.context]);
  if (stream.phase == Phase::kernel) {
    --context.resident;
    context.sms_used -= stream.sms;
    if (stream.end_ns == kNever) --context.spinning;
  } else if (stream.phase == Phase::copy) {
    change(state_->devices[context.device].copying[stream.engine]) = kNone;
    change(state_->accounts[context.account]).copy_ns += std::min(stream.end_ns, state_->now_ns) - stream.phase_ns;
  } else {
    return;
  }
  stream.phase = Phase::idle;
  stream.sms = 0;
}

void Engine::drop(std::uint32_t s, const Command& command) {
  if (command.kind == CommandKind::record) execute_record(command);
  complete(s);
}

// Returns when the watchdog ends this stream's kernel; kNever without a watchdog. The time counts from the kernel's
// start and includes slices of other contexts.
std::uint64_t Engine::overdue_ns(const Stream& stream) const {
  const std::uint64_t most_ns = state_->profile.watchdog_ns;
  return most_ns == 0 || stream.phase != Phase::kernel ? kNever : stream.phase_ns + most_ns;
}

bool Engine::end_overdue(std::uint32_t c) {
  for (std::uint32_t s = state_->contexts[c].first_stream; s != kNone; s = state_->links[s].next) {
    const Stream& stream = state_->streams[s];
    if (overdue_ns(stream) > state_->now_ns || stream.end_ns <= state_->now_ns) continue;
    fail_context(c, kErrorLaunchTimeout);
    return true;
  }
  return false;
}

}  // namespace headgate::sim
