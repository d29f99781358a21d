// Memory that graphs allocate by allocation nodes. The launch (or an upload before it) takes it from a GPU's pool for
// graphs, and it is charged by what that pool has reserved.
//
// A launch cannot be undone, so the most by which it may grow the pool is reserved first. If the share lacks that but
// the pool has enough unused, an upload tests whether that suffices. Growth by the upload is undone; without growth the
// launch needs no more (CUDA programming guide, graph memory nodes: the upload maps physical memory). Nothing here
// synchronises.
#pragma once

#include <atomic>

#include "guest/limiter/memory/pool.hpp"
#include "guest/limiter/stream/streams.hpp"

namespace headgate::limiter {

// Set once a graph of the process gets an allocation node; until then graphs are not examined.
extern std::atomic<bool> graphs_may_allocate;
inline bool graphs_allocate() { return graphs_may_allocate.load(std::memory_order_relaxed); }

inline abi::CUresult graph_allocated(abi::CUresult result) {
  if (result == abi::CUDA_SUCCESS) graphs_may_allocate.store(true, std::memory_order_relaxed);
  return result;
}

// What the allocation nodes of a graph request, by CUDA ordinal.
inline constexpr std::uint32_t kMaxOrdinals = 64;
struct GraphNeeds {
  std::uint64_t bytes[kMaxOrdinals] = {}, count[kMaxOrdinals] = {};
  bool frees_itself = false;  // CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
};
// Return the needs of a graph, child graphs included; for an executable graph, as recorded at its creation.
GraphNeeds needs_of(abi::CUgraph graph);
GraphNeeds needs_of(abi::CUgraphExec exec);
void note_needs(abi::CUgraphExec exec, const GraphNeeds& needs);
GraphNeeds take_needs(abi::CUgraphExec exec);

// For use around a launch or an upload. `exec` null: not created yet.
class GraphRequest {
 public:
  GraphRequest(const GraphNeeds& needs, abi::CUgraphExec exec, abi::CUstream stream);
  // Returns false if the call must be skipped with CUDA_ERROR_OUT_OF_MEMORY; then do not settle.
  bool expect();
  void settle();

 private:
  bool enough_unused(const Place& place, std::uint64_t bytes);

  const GraphNeeds& needs_;
  abi::CUgraphExec exec_;
  abi::CUstream stream_;
  std::uint64_t most_[kMaxOrdinals] = {};
};

// `call` launches `exec` on that stream, or uploads it.
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
