#include "guest/limiter/memory/graph_memory.hpp"

#include <span>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/saturating.hpp"
#include "guest/bare/scratch.hpp"
#include "guest/limiter/memory/allocation_table.hpp"
#include "guest/limiter/memory/pool_accounting.hpp"
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

namespace {

// Each GPU has a separate pool for memory that graphs allocate (CU_GRAPH_MEM_ATTR_*). It changes when a graph is
// uploaded or launched, and at cuDeviceGraphMemTrim.
PoolAccounting* graph_pool_books(const Place& place) {
  if (place.standing != Standing::held) return nullptr;
  PoolAccounting* accounting = graph_accounts[place.device_index].load(std::memory_order_acquire);
  if (accounting != nullptr) return accounting;
  accounting = new_accounting(PoolKind::graph, nullptr, place, false);
  graph_accounts[place.device_index].store(accounting, std::memory_order_release);
  return accounting;
}

// Returns the most that it grows for `count` allocations of `bytes` in total. Each may need a separate growth. But the
// rest of a growth serves later ones, so of two adjacent growths one is more than half used: the sum is less than twice
// the bytes plus one granule.
std::uint64_t most_graph_growth(const Place& place, std::uint64_t bytes, std::uint64_t count) {
  const PoolAccounting* pool = graph_pool_books(place);
  if (pool == nullptr || bytes == 0) return bytes;
  const std::uint64_t granule = pool->granule.load(std::memory_order_relaxed);
  const std::uint64_t each = bare::saturating_add(bytes, bare::saturating_mul(count, granule - 1));
  const std::uint64_t packed = bare::saturating_add(bare::saturating_mul(bytes, 2), granule);
  const std::uint64_t most = each < packed ? each : packed;
  return most - most % granule;
}

// Before a call in which it may grow by `most`; settle_graph_pool() follows. A refusal is not recorded.
Verdict expect_graph_growth(const Place& place, std::uint64_t most) {
  PoolAccounting* pool = graph_pool_books(place);
  if (most == 0 || place.standing == Standing::free) return Verdict::forward;
  InFlightBytes in_flight;  // until it is counted as under way
  const Verdict verdict = try_reserve_at(place, most, in_flight);
  if (verdict != Verdict::reserved) return verdict;
  pools_may_shrink();
  if (pool == nullptr) {
    hand_back_unused(place.device_index, most);
    return Verdict::forward;
  }
  const bare::Locked guard(pool->lock);
  pool->under_way += most;
  pool->charged += most;
  return verdict;
}

// Returns whether the pool has that much unused or, if its users may be freed by the launch (used_too), in total.
bool graph_pool_has(const Place& place, std::uint64_t bytes, bool used_too) {
  std::uint64_t used = 0, reserved = 0;
  return forward(driver.cuDeviceGetGraphMemAttribute, place.device, abi::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
                 static_cast<void*>(&used)) == abi::CUDA_SUCCESS &&
         forward(driver.cuDeviceGetGraphMemAttribute, place.device, abi::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                 static_cast<void*>(&reserved)) == abi::CUDA_SUCCESS &&
         used <= reserved && bytes <= (used_too ? reserved : reserved - used);
}

// After a call that may have grown it with nothing reserved, on trial. Returns false, with the growth undone, if the
// share lacks it.
bool keep_graph_growth(const Place& place) {
  PoolAccounting* pool = graph_pool_books(place);
  if (pool == nullptr) return false;
  const bool kept = settle_accounting(*pool, 0, false) == 0;
  const std::uint32_t trials = kept ? 1 : 2;
  if (!kept) {
    trim_pool(*pool, PoolKind::graph);
    // Before the trials end: a thread that read the sum before the trim would charge memory that is gone.
    settle_accounting(*pool, 0, true, trials);
  }
  end_trials(*pool, trials);
  if (!kept) settle_accounting(*pool, 0, true);
  return kept;
}

}  // namespace

void settle_graph_pool(const Place& place, std::uint64_t most) {
  if (PoolAccounting* pool = graph_pool_books(place); pool != nullptr) settle_accounting(*pool, most, true);
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
  if (PoolAccounting* const pool = graph_pool_books(place); pool != nullptr) begin_trial(*pool);
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
