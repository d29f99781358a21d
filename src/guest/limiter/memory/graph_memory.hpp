// Memory that graphs allocate for themselves, by allocation nodes: taken by the launch (or the upload before it) from a
// pool that each GPU has for graphs, and charged as pools are, by what that pool has reserved.
//
// A launch cannot be undone. So the most that it may grow the pool by is reserved first; where the share does not have
// that much, but the pool has unused what is asked for, an upload shows whether it is enough: a growth that comes of it
// is undone, and after it the launch needs no more (CUDA programming guide, graph memory nodes: physical memory is
// mapped at the upload). Nothing here synchronises.
#pragma once

#include <atomic>

#include "guest/limiter/memory/pool.hpp"
#include "guest/limiter/stream/streams.hpp"

namespace headgate::limiter {

// Set once any graph of the process was given an allocation node: until then, no graph is looked at.
extern std::atomic<bool> graphs_may_allocate;
inline bool graphs_allocate() { return graphs_may_allocate.load(std::memory_order_relaxed); }

inline abi::CUresult graph_allocated(abi::CUresult result) {
  if (result == abi::CUDA_SUCCESS) graphs_may_allocate.store(true, std::memory_order_relaxed);
  return result;
}

// What the allocation nodes of a graph ask for, by CUDA ordinal.
inline constexpr std::uint32_t kMaxOrdinals = 64;
struct GraphNeeds {
  std::uint64_t bytes[kMaxOrdinals] = {}, count[kMaxOrdinals] = {};
  bool frees_itself = false;  // CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
};
// Of a graph, child graphs included; of an executable graph, as noted when it was made.
GraphNeeds needs_of(abi::CUgraph graph);
GraphNeeds needs_of(abi::CUgraphExec exec);
void note_needs(abi::CUgraphExec exec, const GraphNeeds& needs);
GraphNeeds take_needs(abi::CUgraphExec exec);

// Around a launch or an upload. `exec` null: of one that is not made yet.
class GraphRequest {
 public:
  GraphRequest(const GraphNeeds& needs, abi::CUgraphExec exec, abi::CUstream stream);
  // False: CUDA_ERROR_OUT_OF_MEMORY without the call; then nothing is to be settled.
  bool expect();
  void settle();

 private:
  bool enough_unused(const Place& place, std::uint64_t bytes);

  const GraphNeeds& needs_;
  abi::CUgraphExec exec_;
  abi::CUstream stream_;
  std::uint64_t most_[kMaxOrdinals] = {};
};

// `call` launches `exec` into that stream, or uploads it.
template <typename Call>
abi::CUresult with_graph_memory(abi::CUgraphExec exec, abi::CUstream stream, const Call& call) {
  if (!graphs_allocate() || !seated() || is_captured(stream)) return call();
  const GraphNeeds needs = needs_of(exec);
  GraphRequest request(needs, exec, stream);
  if (!request.expect()) return is_stream(stream) ? abi::CUDA_ERROR_OUT_OF_MEMORY : call();
  const abi::CUresult result = call();
  request.settle();
  return result;
}

void graph_memory_reset_after_fork();

}  // namespace headgate::limiter
