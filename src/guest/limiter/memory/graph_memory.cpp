#include "guest/limiter/memory/graph_memory.hpp"

#include <span>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/saturating.hpp"
#include "guest/bare/scratch.hpp"
#include "guest/limiter/memory/allocation_table.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/session.hpp"
#include "guest/limiter/stream/captures.hpp"

namespace headgate::limiter {

constinit std::atomic<bool> graphs_may_allocate;

namespace {

// By executable graph and ordinal: their bytes; as `owner` (which must be even) twice their number; as `device_index`
// whether launches free by themselves.
constinit AllocationTable all_needs;

std::uint64_t key(abi::CUgraphExec exec, std::uint32_t ordinal) {
  return reinterpret_cast<std::uintptr_t>(exec) * kMaxOrdinals + ordinal;
}

std::uint32_t ordinals() { return session.device_count < kMaxOrdinals ? session.device_count : kMaxOrdinals; }

void add_needs(abi::CUgraph graph, GraphNeeds& needs, int depth);

void add_node(abi::CUgraphNode node, GraphNeeds& needs, int depth) {
  abi::CUgraphNodeType type = abi::CU_GRAPH_NODE_TYPE_KERNEL;
  if (forward(driver.cuGraphNodeGetType, node, &type) != abi::CUDA_SUCCESS) return;
  if (type == abi::CU_GRAPH_NODE_TYPE_GRAPH) {
    abi::CUgraph child = nullptr;
    if (forward(driver.cuGraphChildGraphNodeGetGraph, node, &child) == abi::CUDA_SUCCESS)
      add_needs(child, needs, depth + 1);
    return;
  }
  abi::CUDA_MEM_ALLOC_NODE_PARAMS params{};
  if (type != abi::CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
      forward(driver.cuGraphMemAllocNodeGetParams, node, &params) != abi::CUDA_SUCCESS)
    return;
  const auto ordinal = static_cast<std::uint32_t>(params.poolProps.location.id);
  if (ordinal >= ordinals()) return;
  needs.bytes[ordinal] = bare::saturating_add(needs.bytes[ordinal], params.bytesize);
  ++needs.count[ordinal];
}

void add_needs(abi::CUgraph graph, GraphNeeds& needs, int depth) {
  constexpr int kDeepest = 64;  // nesting is the program's choice, and the stack may be small
  std::size_t count = 0;
  if (depth > kDeepest ||
      forward(driver.cuGraphGetNodes, graph, static_cast<abi::CUgraphNode*>(nullptr), &count) != abi::CUDA_SUCCESS ||
      count == 0)
    return;
  const bare::MappedMemory memory(count * sizeof(abi::CUgraphNode));
  auto* const nodes = static_cast<abi::CUgraphNode*>(memory.at());
  if (nodes == nullptr || forward(driver.cuGraphGetNodes, graph, nodes, &count) != abi::CUDA_SUCCESS) return;
  for (const abi::CUgraphNode node : std::span(nodes, count)) add_node(node, needs, depth);
}

}  // namespace

GraphNeeds needs_of(abi::CUgraph graph) {
  GraphNeeds needs;
  const bare::KeepErrno keep_errno;
  add_needs(graph, needs, 0);
  return needs;
}

GraphNeeds needs_of(abi::CUgraphExec exec) {
  GraphNeeds needs;
  for (std::uint32_t ordinal = 0; ordinal < ordinals(); ++ordinal) {
    Allocation found;
    if (!all_needs.look(key(exec, ordinal), found)) continue;
    needs.bytes[ordinal] = found.bytes;
    needs.count[ordinal] = found.owner / 2;
    needs.frees_itself = found.device_index != 0;
  }
  return needs;
}

void note_needs(abi::CUgraphExec exec, const GraphNeeds& needs) {
  constexpr std::uint64_t kMost = (1ull << 56) - 1;  // the maximum of an Allocation
  for (std::uint32_t ordinal = 0; ordinal < ordinals(); ++ordinal) {
    if (needs.count[ordinal] == 0) continue;
    const std::uint64_t bytes = needs.bytes[ordinal] < kMost ? needs.bytes[ordinal] : kMost;
    all_needs.put(key(exec, ordinal), {bytes, needs.frees_itself ? 1u : 0u, needs.count[ordinal] * 2});
  }
}

GraphNeeds take_needs(abi::CUgraphExec exec) {
  if (!graphs_allocate()) return {};
  const GraphNeeds needs = needs_of(exec);
  Allocation gone;
  for (std::uint32_t ordinal = 0; ordinal < ordinals(); ++ordinal) all_needs.take(key(exec, ordinal), gone);
  return needs;
}

GraphRequest::GraphRequest(const GraphNeeds& needs, abi::CUgraphExec exec, abi::CUstream stream)
    : needs_(needs), exec_(exec), stream_(stream) {}

bool GraphRequest::expect() {
  for (std::uint32_t ordinal = 0; ordinal < ordinals(); ++ordinal) {
    const std::uint64_t bytes = needs_.bytes[ordinal];
    if (bytes == 0) continue;
    const Place place = place_of(static_cast<abi::CUdevice>(ordinal));
    const std::uint64_t most = most_graph_growth(place, bytes, needs_.count[ordinal]);
    const Verdict verdict = expect_graph_growth(place, most);
    if (verdict == Verdict::reserved) most_[ordinal] = most;
    if (verdict != Verdict::refused || enough_unused(place, bytes)) continue;
    if (place.standing == Standing::held) book_refusal(place, bytes);
    settle();
    return false;
  }
  return true;
}

// Not during a capture: it is unknown whether an upload is allowed then.
bool GraphRequest::enough_unused(const Place& place, std::uint64_t bytes) {
  if (place.standing != Standing::held || exec_ == nullptr || any_capture()) return false;
  if (!graph_pool_has(place, bytes, needs_.frees_itself)) return false;
  try_graph_growth(place);
  const abi::CUresult uploaded = forward(driver.cuGraphUpload, exec_, stream_);
  return keep_graph_growth(place) && uploaded == abi::CUDA_SUCCESS;
}

void GraphRequest::settle() {
  for (std::uint32_t ordinal = 0; ordinal < ordinals(); ++ordinal) {
    if (needs_.bytes[ordinal] != 0) settle_graph_pool(place_of(static_cast<abi::CUdevice>(ordinal)), most_[ordinal]);
  }
}

void graph_memory_reset_after_fork() {
  all_needs.forget_after_fork();
  graphs_may_allocate.store(false, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
