// cuStreamWaitValue, cuStreamWriteValue and cuStreamBatchMemOp: streams wait for a word of memory or write one. Writes,
// copies, fills and kernels change words. The CPU changes words in page-locked host memory; that is seen wherever the
// program waits or polls.
#include <cstring>
#include <span>

#include "sim/driver/graph/graph_add.hpp"
#include "sim/driver/memory/memory.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

constexpr unsigned kFlush = 1u << 30;  // cuda.h: CU_STREAM_WAIT_VALUE_FLUSH

CUresult word_flag(CUdeviceptr address, std::size_t bytes, std::uint32_t* flag) {
  if (address % bytes != 0 || !is_device_address(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  bool in_memory = false;
  *flag = flag_of(address, &in_memory);
  return *flag == kNone ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult prepare_wait(CUdeviceptr address, std::uint64_t value, std::size_t bytes, unsigned flags, Prepared* out) {
  if ((flags & kFlush) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (flags > kFlagNor) return CUDA_ERROR_INVALID_VALUE;
  out->command.kind = CommandKind::wait_flag;
  out->command.amount = value;
  out->command.detail = flags | (bytes == 8 ? kFlagWide : 0);
  return word_flag(address, bytes, &out->command.wait_flag);
}

CUresult prepare_write(CUdeviceptr address, std::uint64_t value, std::size_t bytes, unsigned flags, Prepared* out) {
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  out->command.kind = CommandKind::set_flag;
  out->command.amount = value;
  out->command.detail = bytes == 8 ? kFlagWide : 0;
  out->act = [address, value, bytes] {
    std::memcpy(reinterpret_cast<void*>(address), &value, bytes);
    refresh_flags(address, bytes, address);
  };
  return word_flag(address, bytes, &out->command.set_flag);
}

CUresult send(Stream* stream, const std::vector<Prepared>& all) {
  const std::lock_guard guard(stream->context->lock);
  for (const Prepared& one : all) {
    Command command = one.command;
    std::uint64_t number = 0;
    SIM_TRY(submit_locked(stream, command, &number));
    if (one.act) add_payload(stream, number, one.act);
  }
  return CUDA_SUCCESS;
}

template <typename Prepare>
CUresult one_value(const Prepare& prepare, CUstream handle, bool per_thread, CUdeviceptr address, std::uint64_t value,
                   std::size_t bytes, unsigned flags) {
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  std::vector<Prepared> all(1);
  SIM_TRY(prepare(address, value, bytes, flags, all.data()));
  return send(stream, all);
}

// cuda.h: CUstreamBatchMemOpType.
enum : std::uint32_t { kWait32 = 1, kWrite32 = 2, kFlushRemote = 3, kWait64 = 4, kWrite64 = 5, kBarrier = 6 };
constexpr unsigned kMaxOperations = 256;

CUresult check(const ValueOperation* operations, unsigned count, unsigned flags) {
  if (flags != 0 || count > kMaxOperations || (count != 0 && operations == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (const ValueOperation& one : std::span(operations, count)) {
    if (one.type == kFlushRemote) return CUDA_ERROR_NOT_SUPPORTED;
    if (one.type < kWait32 || one.type > kBarrier) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult prepare_operations(std::span<const ValueOperation> operations, std::vector<Prepared>* out) {
  for (const ValueOperation& one : operations) {
    if (one.type == kBarrier) continue;  // a stream's operations run in order anyway
    const bool wide = one.type == kWait64 || one.type == kWrite64;
    const std::uint64_t value = wide ? one.value : static_cast<std::uint32_t>(one.value);
    const auto prepare = one.type == kWait32 || one.type == kWait64 ? prepare_wait : prepare_write;
    SIM_TRY(prepare(one.address, value, wide ? 8 : 4, one.flags, &out->emplace_back()));
  }
  return CUDA_SUCCESS;
}

CUresult batch(CUstream handle, bool per_thread, unsigned count, const CUstreamBatchMemOpParams* parameters,
               unsigned flags) {
  const auto* operations = reinterpret_cast<const ValueOperation*>(parameters);
  SIM_TRY(check(operations, count, flags));
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  std::vector<Prepared> all;
  SIM_TRY(prepare_operations(std::span(operations, count), &all));
  return send(stream, all);
}

}  // namespace

CUresult batch_work(const BatchNodeParams* given, Work* out) {
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  BatchWork work;
  SIM_TRY(context_or_current(given->context, &work.context));
  if (given->count == 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(check(given->operations, given->count, given->flags));
  work.operations = std::make_shared<std::vector<ValueOperation>>(given->operations, given->operations + given->count);
  work.told = *given;
  work.told.operations = work.operations->data();
  std::vector<Prepared> checked;
  SIM_TRY(prepare_batch(work, &checked));
  return give(out, std::move(work));
}

CUresult prepare_batch(const BatchWork& batch, std::vector<Prepared>* out) {
  return prepare_operations(*batch.operations, out);
}

// Both versions of each function behave the same here.
#define SIM_VALUE(name, call, type)                                                            \
  SIM_CALL_PTSZ(name, (CUstream stream, CUdeviceptr address, type value, unsigned flags),      \
                one_value(call, stream, per_thread, address, value, sizeof value, flags))      \
  SIM_CALL_PTSZ(name##_v2, (CUstream stream, CUdeviceptr address, type value, unsigned flags), \
                one_value(call, stream, per_thread, address, value, sizeof value, flags))

SIM_VALUE(cuStreamWaitValue32, prepare_wait, cuuint32_t)
SIM_VALUE(cuStreamWaitValue64, prepare_wait, cuuint64_t)
SIM_VALUE(cuStreamWriteValue32, prepare_write, cuuint32_t)
SIM_VALUE(cuStreamWriteValue64, prepare_write, cuuint64_t)

SIM_CALL_PTSZ(cuStreamBatchMemOp, (CUstream stream, unsigned n, CUstreamBatchMemOpParams* operations, unsigned flags),
              batch(stream, per_thread, n, operations, flags))
SIM_CALL_PTSZ(cuStreamBatchMemOp_v2,
              (CUstream stream, unsigned n, CUstreamBatchMemOpParams* operations, unsigned flags),
              batch(stream, per_thread, n, operations, flags))

SIM_CALL(cuGraphAddBatchMemOpNode,
         (CUgraphNode * out, CUgraph graph, const CUgraphNode* behind, std::size_t count, const BatchNodeParams* given),
         add_to_graph(out, graph, behind, nullptr, count, NodeType::batch,
                      [given](Work* work) { return batch_work(given, work); }))
SIM_CALL(cuGraphBatchMemOpNodeGetParams, (CUgraphNode node, BatchNodeParams* out),
         ask_node(node, NodeType::batch, out, &BatchWork::told))
SIM_API CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode handle, const BatchNodeParams* given) {
  SIM_ENTER(cuGraphBatchMemOpNodeSetParams, given);
  SIM_GET(GraphNode, node, node_of_type(handle, NodeType::batch, &node));
  return batch_work(given, &node->work);
}

}  // namespace headgate::sim::driver
