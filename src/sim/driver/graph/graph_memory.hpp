// Memory that graphs allocate. A node's address is fixed when the node is created. A launch backs it with bytes from
// the device's graph memory pool, in stream order. They return to the pool when a graph or the program frees them, or
// when the same graph is launched again.
//
// The pool keeps the bytes until cuDeviceGraphMemTrim. Bytes that a launch frees are not reused within that launch.
#pragma once

#include "sim/driver/graph/graph.hpp"
#include "sim/driver/memory/pool.hpp"

namespace headgate::sim::driver {

struct GraphMemory {
  GraphMemory() = default;
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory();

  AllocateNodeParams told{};  // the node's parameters, including the address
  std::vector<CUmemAccessDesc> access;
  int device = 0;  // CUDA ordinal
  enum class FreedBy { nobody, owner, another } freed_by = FreedBy::nobody;
  const Graph* owner = nullptr;  // the allocation node's graph; null once it is destroyed
  std::uint64_t bytes_at = 0;    // the pool's piece behind it; 0: none. Under the lock of all graph memory
};

// Errors: INVALID_VALUE, INVALID_DEVICE; NOT_SUPPORTED unless it is a device's own memory; OUT_OF_MEMORY if no address
// range is left.
CUresult allocate_work(const AllocateNodeParams& given, Work* out);
// INVALID_VALUE unless an allocation node has this address.
CUresult free_work(CUdeviceptr address, Work* out);
// Called before a node with this work joins the graph, and after. cuda.h: freed once in the owning graph, or elsewhere.
CUresult memory_may_join(const Graph* graph, const Work& work);
void memory_joined(const Graph* graph, const Work& work);
void memory_left(const Graph* graph, const Work& work);

// Called before a launch: backs its allocations with bytes. On OUT_OF_MEMORY nothing is taken. INVALID_VALUE if an
// earlier launch's allocation was not freed (and the graph has no auto-free), or if memory to free has no bytes.
CUresult take_graph_bytes(const Exec& exec, Stream* stream);
// Called after the whole launch was sent: frees what the graph frees.
void give_graph_bytes(const Exec& exec, Stream* stream);
// cuGraphUpload: grows the pool by what the next launch on that stream lacks.
CUresult upload_graph_bytes(const Exec& exec, Stream* stream);

// cuMemFree (`marks` null) and cuMemFreeAsync. Returns false if no graph owns the address. Else sets `answer`:
// INVALID_VALUE if there is nothing to free, or if its own graph will free it.
bool free_graph_memory(CUdeviceptr address, const Marks* marks, CUresult* answer);

}  // namespace headgate::sim::driver
