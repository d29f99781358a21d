#include "sim/driver/graph/graph_memory.hpp"

#include <algorithm>

#include "sim/driver/graph/graph_add.hpp"
#include "sim/driver/memory/arena.hpp"
#include "sim/driver/memory/memory.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

constexpr unsigned kOnDevice = 1;  // cuda.h: CU_MEM_LOCATION_TYPE_DEVICE

struct Range {
  std::uint64_t address, bytes;
};

struct Book {
  std::mutex lock;  // taken before the pools' lock
  std::map<std::uint64_t, std::weak_ptr<GraphMemory>> known;
  std::map<std::uint64_t, std::shared_ptr<GraphMemory>> backed;  // has bytes: stays alive without its node
  std::vector<Range> retired;                                    // copies that were sent earlier may still write there
};
Book& book() { return forever<Book>(); }

std::shared_ptr<GraphMemory> find(CUdeviceptr address) {
  const std::lock_guard guard(book().lock);
  const auto found = book().known.find(address);
  return found == book().known.end() ? nullptr : found->second.lock();
}

void end_retired() {
  if (payloads_pending()) return;
  for (const Range& range : book().retired) (void)arena_give(range.address, range.bytes, 0);
  book().retired.clear();
}

// The caller holds the book's lock, for this and the three functions below.
CUresult take_bytes(const std::shared_ptr<GraphMemory>& memory, Stream* stream) {
  const auto guard = lock_pools();
  MemoryPool* pool = graph_pool(memory->device);
  if (pool == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  SIM_TRY(pool_allocate(pool, stream, memory->told.bytes, &memory->bytes_at));
  book().backed[memory->told.address] = memory;
  return CUDA_SUCCESS;
}

// The book may own the last reference, so the caller passes a shared_ptr that is not the book's.
void give_bytes(const std::shared_ptr<GraphMemory>& memory, const Marks* marks) {
  const auto guard = lock_pools();
  pool_free(graph_pool(memory->device), memory->bytes_at, marks);
  memory->bytes_at = 0;
  book().backed.erase(memory->told.address);
}

CUresult may_launch(const Exec& exec, bool frees_itself) {
  for (const auto& memory : exec.allocates)
    if (memory->bytes_at != 0 && !frees_itself) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& memory : exec.frees)
    if (memory->bytes_at == 0 && std::ranges::find(exec.allocates, memory) == exec.allocates.end())
      return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

}  // namespace

GraphMemory::~GraphMemory() {
  if (told.address == 0) return;
  forget_graph_allocation(told.address);
  const std::lock_guard guard(book().lock);
  book().known.erase(told.address);
  book().retired.push_back({told.address, told.bytes});
}

CUresult allocate_work(const AllocateNodeParams& given, Work* out) {
  const CUmemLocation& where = given.pool.location;
  if (given.bytes == 0 || given.pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED || given.pool.handleTypes != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (where.type != kOnDevice) return where.type <= 4 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  if (!known_device(where.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (given.access_count > library().visible.size() || (given.access_count != 0 && given.access == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  auto memory = std::make_shared<GraphMemory>();
  memory->device = where.id;
  for (std::size_t i = 0; i < given.access_count; ++i) {
    if (given.access[i].location.type != kOnDevice || !known_device(given.access[i].location.id))
      return CUDA_ERROR_INVALID_VALUE;
    memory->access.push_back(given.access[i]);
  }
  Allocation noted{.bytes = given.bytes};
  noted.graph = true;
  {
    const auto guard = lock_pools();
    noted.pool = graph_pool(where.id);
  }
  if (noted.pool == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard guard(book().lock);
  end_retired();
  noted.base = arena_take(noted.pool, given.bytes, 0, [](std::uint64_t) { return true; });
  if (noted.base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  memory->told = given;
  memory->told.access = memory->access.empty() ? nullptr : memory->access.data();
  memory->told.address = noted.base;
  note_allocation(noted);
  book().known[noted.base] = memory;
  return give(out, AllocateWork{std::move(memory)});
}

CUresult free_work(CUdeviceptr address, Work* out) {
  auto memory = find(address);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return give(out, FreeWork{std::move(memory)});
}

CUresult memory_may_join(const Graph* graph, const Work& work) {
  const auto* freeing = std::get_if<FreeWork>(&work);
  if (freeing == nullptr && !std::holds_alternative<AllocateWork>(work)) return CUDA_SUCCESS;
  if (graph->moved) return CUDA_ERROR_NOT_SUPPORTED;
  if (freeing == nullptr) return CUDA_SUCCESS;
  const bool own = freeing->memory->owner == graph;
  switch (freeing->memory->freed_by) {
    case GraphMemory::FreedBy::nobody: return CUDA_SUCCESS;
    case GraphMemory::FreedBy::owner: return CUDA_ERROR_INVALID_VALUE;
    case GraphMemory::FreedBy::another: break;
  }
  const bool twice_here = std::ranges::any_of(graph->nodes, [&](const GraphNode* node) {
    const auto* other = std::get_if<FreeWork>(&node->work);
    return other != nullptr && other->memory == freeing->memory;
  });
  return own || twice_here ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

void memory_joined(const Graph* graph, const Work& work) {
  if (const auto* made = std::get_if<AllocateWork>(&work)) made->memory->owner = graph;
  if (const auto* freeing = std::get_if<FreeWork>(&work)) {
    const bool own = freeing->memory->owner == graph;
    freeing->memory->freed_by = own ? GraphMemory::FreedBy::owner : GraphMemory::FreedBy::another;
  }
}

void memory_left(const Graph* graph, const Work& work) {
  const auto* made = std::get_if<AllocateWork>(&work);
  if (made != nullptr && made->memory->owner == graph) made->memory->owner = nullptr;
}

CUresult take_graph_bytes(const Exec& exec, Stream* stream) {
  if (exec.allocates.empty() && exec.frees.empty()) return CUDA_SUCCESS;
  constexpr cuuint64_t kAutoFree = 1;  // cuda.h: CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
  const Marks marks = marks_of(stream);
  const std::lock_guard guard(book().lock);
  SIM_TRY(may_launch(exec, (exec.flags & kAutoFree) != 0));
  for (const auto& memory : exec.allocates)
    if (memory->bytes_at != 0) give_bytes(memory, &marks);
  for (std::size_t i = 0; i < exec.allocates.size(); ++i) {
    const CUresult taken = take_bytes(exec.allocates[i], stream);
    if (taken == CUDA_SUCCESS) continue;
    while (i-- > 0) give_bytes(exec.allocates[i], &marks);
    return taken;
  }
  return CUDA_SUCCESS;
}

void give_graph_bytes(const Exec& exec, Stream* stream) {
  if (exec.frees.empty()) return;
  const Marks marks = marks_of(stream);
  const std::lock_guard guard(book().lock);
  for (const auto& memory : exec.frees)
    if (memory->bytes_at != 0) give_bytes(memory, &marks);
}

CUresult upload_graph_bytes(const Exec& exec, Stream* stream) {
  const std::lock_guard guard(book().lock);
  std::vector<std::shared_ptr<GraphMemory>> taken;
  CUresult result = CUDA_SUCCESS;
  for (const auto& memory : exec.allocates) {
    if (memory->bytes_at != 0) continue;
    result = take_bytes(memory, stream);
    if (result != CUDA_SUCCESS) break;
    taken.push_back(memory);
  }
  for (const auto& memory : taken) give_bytes(memory, nullptr);
  return result;
}

bool free_graph_memory(CUdeviceptr address, const Marks* marks, CUresult* answer) {
  const std::shared_ptr<GraphMemory> memory = find(address);
  if (memory == nullptr) return false;
  const std::lock_guard guard(book().lock);
  const bool may = memory->bytes_at != 0 && memory->freed_by != GraphMemory::FreedBy::owner;
  *answer = may ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (may) give_bytes(memory, marks);
  return true;
}

SIM_API CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* behind, std::size_t count,
                                        AllocateNodeParams* given) {
  SIM_ENTER(cuGraphAddMemAllocNode, given);
  return add_to_graph(out, graph, behind, nullptr, count, NodeType::allocate, [given](Work* work) {
    SIM_TRY(allocate_work(*given, work));
    given->address = std::get<AllocateWork>(*work).memory->told.address;
    return CUDA_SUCCESS;
  });
}
SIM_CALL(cuGraphAddMemFreeNode,
         (CUgraphNode * out, CUgraph graph, const CUgraphNode* behind, std::size_t count, CUdeviceptr address),
         add_to_graph(out, graph, behind, nullptr, count, NodeType::free,
                      [address](Work* work) { return free_work(address, work); }))
SIM_CALL(cuGraphMemAllocNodeGetParams, (CUgraphNode node, AllocateNodeParams* out),
         ask_node(node, NodeType::allocate, out,
                  [](const Work& work) { return std::get<AllocateWork>(work).memory->told; }))
SIM_CALL(cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr* out),
         ask_node(node, NodeType::free, out,
                  [](const Work& work) { return std::get<FreeWork>(work).memory->told.address; }))

}  // namespace headgate::sim::driver
