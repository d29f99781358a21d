// Moves a process's memory off the devices and back.
#include "sim/engine.hpp"

namespace headgate::sim {

void Engine::set_checkpoint(std::uint32_t p, CheckpointState state) {
  change(state_->processes[p].checkpoint).store(static_cast<std::uint32_t>(state), std::memory_order_release);
  ++change(state_->changes);
  commit();
}

bool Engine::process_idle(std::uint32_t p) const {
  for (std::uint32_t c = 0; c < state_->context_limit; ++c) {
    const Context& context = state_->contexts[c];
    if (!context.used || context.process != p) continue;
    for (std::uint32_t s = context.first_stream; s != kNone; s = state_->links[s].next)
      if (head_command(s)) return false;
  }
  return true;
}

bool Engine::checkpoint_process(std::uint32_t p) {
  for (std::uint32_t m = 0; m < state_->shared_limit; ++m) {
    const SharedMemory& shared = state_->shared[m];
    if (shared.used && shared.account != kNone && state_->accounts[shared.account].process == p) return false;
  }
  for (const Account& one : state_->accounts) {
    if (one.used != 1 || one.process != p) continue;
    Account& account = change(one);
    account.away_bytes = account.bytes;
    account.away_slack_bytes = account.slack_bytes;
    account.away_context_bytes = account.context_bytes;
    account.bytes = account.slack_bytes = account.context_bytes = 0;
    change(state_->devices[account.device]).bytes -=
        account.away_bytes + account.away_slack_bytes + account.away_context_bytes;
  }
  set_checkpoint(p, CheckpointState::checkpointed);
  return true;
}

bool Engine::restore_process(std::uint32_t p) {
  const auto away = [](const Account& one) { return one.away_bytes + one.away_slack_bytes + one.away_context_bytes; };
  for (const Account& one : state_->accounts)
    if (one.used == 1 && one.process == p && away(one) > free_bytes(one.device)) return false;
  for (const Account& one : state_->accounts) {
    if (one.used != 1 || one.process != p) continue;
    Account& account = change(one);
    change(state_->devices[account.device]).bytes += away(account);
    account.bytes = account.away_bytes;
    account.slack_bytes = account.away_slack_bytes;
    account.context_bytes = account.away_context_bytes;
    account.away_bytes = account.away_slack_bytes = account.away_context_bytes = 0;
  }
  set_checkpoint(p, CheckpointState::locked);
  return true;
}

}  // namespace headgate::sim
