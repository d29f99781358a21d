// Memory that graphs allocate for themselves. A node's address is fixed when the node is made; bytes come behind it
// when the graph is launched, from the device's graph memory pool, in the order of the launching stream, and go back to
// the pool when a graph frees it, the program does, or the same graph is launched again.
//
// The pool keeps the bytes until cuDeviceGraphMemTrim. Within one launch nothing is had again that the launch itself
// frees.
#pragma once

#include "sim/driver/graph/graph.hpp"
#include "sim/driver/memory/pool.hpp"

namespace headgate::sim::driver {

struct GraphMemory {
  GraphMemory() = default;
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory();

  AllocateNodeParams told{};  // what the node was given, and the address
  std::vector<CUmemAccessDesc> access;
  int device = 0;  // CUDA ordinal
  enum class FreedBy { nobody, owner, another } freed_by = FreedBy::nobody;
  const Graph* owner = nullptr;  // the graph of the allocation node; null once that is gone
  std::uint64_t bytes_at = 0;    // the piece of the pool that is behind it; 0: none. Under the lock of all graph memory
};

// INVALID_VALUE, INVALID_DEVICE; NOT_SUPPORTED for other than a device's own memory; OUT_OF_MEMORY: no such address
// range.
CUresult allocate_work(const AllocateNodeParams& given, Work* out);
// INVALID_VALUE unless an allocation node has this address.
CUresult free_work(CUdeviceptr address, Work* out);
// Before a node of this work joins the graph, and after it has. cuda.h: freed once in the owning graph, or elsewhere.
CUresult memory_may_join(const Graph* graph, const Work& work);
void memory_joined(const Graph* graph, const Work& work);
void memory_left(const Graph* graph, const Work& work);

// Before a launch: bytes for what it allocates. OUT_OF_MEMORY with nothing taken; INVALID_VALUE where an allocation of
// an earlier launch was not freed (and the graph does not free by itself), or what it frees has no bytes.
CUresult take_graph_bytes(const Exec& exec, Stream* stream);
// After all of it was sent.
void give_graph_bytes(const Exec& exec, Stream* stream);
// cuGraphUpload: the pool grows by what the next launch there lacks.
CUresult upload_graph_bytes(const Exec& exec, Stream* stream);

// cuMemFree (`marks` null) and cuMemFreeAsync. False where the address is no graph's; else `answer`: INVALID_VALUE
// where there is nothing to free, or its own graph will free it.
bool free_graph_memory(CUdeviceptr address, const Marks* marks, CUresult* answer);

}  // namespace headgate::sim::driver
