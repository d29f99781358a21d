// Peer access between devices. Copies between devices work with and without it.
#include <algorithm>

#include "sim/driver/memory/memory.hpp"

namespace headgate::sim::driver {
namespace {

using Peer = std::pair<const Context*, const Context*>;  // from, to
struct Peers {
  std::mutex lock;
  std::vector<Peer> enabled;
};
Peers& peers() { return forever<Peers>(); }

CUresult pair_to(CUcontext handle, Peer* out) {
  Context *from = nullptr, *to = nullptr;
  SIM_TRY(current_context(&from));
  SIM_TRY(context_of(handle, &to));
  *out = {from, to};
  return from == to ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

}  // namespace

void forget_peers(const Context* context) {
  const std::lock_guard guard(peers().lock);
  std::erase_if(peers().enabled, [&](const auto& pair) { return pair.first == context || pair.second == context; });
}

SIM_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  SIM_ENTER(cuCtxEnablePeerAccess);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Peer pair;
  SIM_TRY(pair_to(peer, &pair));
  if (pair.first->device == pair.second->device) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const std::lock_guard guard(peers().lock);
  if (std::ranges::count(peers().enabled, pair) != 0) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  peers().enabled.push_back(pair);
  return CUDA_SUCCESS;
}
SIM_API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  SIM_ENTER(cuCtxDisablePeerAccess);
  Peer pair;
  SIM_TRY(pair_to(peer, &pair));
  const std::lock_guard guard(peers().lock);
  return std::erase(peers().enabled, pair) == 0 ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED : CUDA_SUCCESS;
}

}  // namespace headgate::sim::driver
