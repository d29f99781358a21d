// Memory that may outlive its creator: account and size. The kernel knows which processes hold it: see node_shared.cpp.

#include "sim/engine.hpp"

namespace headgate::sim {

std::uint32_t Engine::share(std::uint32_t account, std::uint64_t bytes) {
  std::uint32_t place = 0;
  while (place < kMaxShared && state_->shared[place].used) ++place;
  if (place == kMaxShared) return kNone;
  SharedMemory& shared = change(state_->shared[place]);
  shared = {.used = 1,
            .generation = shared.generation + 1,
            .device = state_->accounts[account].device,
            .account = account,
            .bytes = bytes,
            .inode = 0};
  if (place >= state_->shared_limit) change(state_->shared_limit) = place + 1;
  commit();
  return place;
}

void Engine::name_shared(std::uint32_t place, std::uint64_t inode) {
  change(state_->shared[place]).inode = inode;
  commit();
}

void Engine::unshare(std::uint32_t place) {
  change(state_->shared[place]).used = 0;
  commit();
}

void Engine::disown_shared(std::uint32_t place) {
  SharedMemory& shared = change(state_->shared[place]);
  if (shared.account != kNone) change(state_->accounts[shared.account]).bytes -= shared.bytes;
  shared.account = kNone;
  commit();
}

void Engine::free_shared(std::uint32_t place) {
  SharedMemory& shared = change(state_->shared[place]);
  if (shared.account != kNone) change(state_->accounts[shared.account]).bytes -= shared.bytes;
  change(state_->devices[shared.device]).bytes -= shared.bytes;
  shared.used = 0;
  for (const Flag& flag : state_->flags) {
    if (flag.used && flag.process == kNone && (flag.key & kSharedFlagMask) == shared_flag_key(place, 0))
      change(flag) = {};
  }
  commit();
}

}  // namespace headgate::sim
