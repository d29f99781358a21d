// cuStreamWaitValue, cuStreamWriteValue and several of them in one cuStreamBatchMemOp: a stream that waits for a word of memory, or writes one. Words change by what
// streams do (writes, copies, fills, kernels); what the processor writes there itself is not seen.
#include <cstring>

#include "sim/driver/memory.hpp"
#include "sim/driver/payload.hpp"

namespace headgate::sim::driver {

namespace {

constexpr unsigned kFlush = 1u << 30;  // cuda.h: CU_STREAM_WAIT_VALUE_FLUSH

CUresult word_flag(CUdeviceptr address, std::size_t bytes, std::uint32_t* flag) {
  if (address % bytes != 0 || !is_device_address(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  bool in_memory = false;
  *flag = flag_of(address, &in_memory);
  return *flag == kNone ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult wait_value(CUstream handle, bool per_thread, CUdeviceptr address, std::uint64_t value, std::size_t bytes,
                    unsigned flags) {
  Stream* stream = nullptr;
  SIM_TRY(stream_of(handle, per_thread, &stream));
  if ((flags & kFlush) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (flags > kFlagNor) return CUDA_ERROR_INVALID_VALUE;
  Command command;
  command.kind = CommandKind::wait_flag;
  command.amount = value;
  command.detail = flags | (bytes == 8 ? kFlagWide : 0);
  SIM_TRY(word_flag(address, bytes, &command.wait_flag));
  std::uint64_t number = 0;
  return submit(stream, command, &number);
}

CUresult write_value(CUstream handle, bool per_thread, CUdeviceptr address, std::uint64_t value, std::size_t bytes,
                     unsigned flags) {
  Stream* stream = nullptr;
  SIM_TRY(stream_of(handle, per_thread, &stream));
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  Command command;
  command.kind = CommandKind::set_flag;
  command.amount = value;
  command.detail = bytes == 8 ? kFlagWide : 0;
  SIM_TRY(word_flag(address, bytes, &command.set_flag));
  const std::lock_guard guard(stream->context->lock);
  std::uint64_t number = 0;
  SIM_TRY(submit_locked(stream, command, &number));
  add_payload(stream, number, [address, value, bytes] {
    std::memcpy(reinterpret_cast<void*>(address), &value, bytes);
    refresh_flags(address, bytes, address);
  });
  return CUDA_SUCCESS;
}

// cuda.h: CUstreamBatchMemOpParams, as far as the operations on words go, and CUstreamBatchMemOpType.
struct Operation {
  std::uint32_t type;
  CUdeviceptr address;
  std::uint64_t value;
  std::uint32_t flags;
  std::uint64_t rest[2];
};
static_assert(sizeof(Operation) == 48);
enum : std::uint32_t { kWait32 = 1, kWrite32 = 2, kFlushRemote = 3, kWait64 = 4, kWrite64 = 5, kBarrier = 6 };
constexpr unsigned kMostOperations = 256;

CUresult batch(CUstream handle, bool per_thread, unsigned count, const CUstreamBatchMemOpParams* parameters,
               unsigned flags) {
  if (flags != 0 || count > kMostOperations || (count != 0 && parameters == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const auto* operations = reinterpret_cast<const Operation*>(parameters);
  for (unsigned i = 0; i < count; ++i) {
    if (operations[i].type == kFlushRemote) return CUDA_ERROR_NOT_SUPPORTED;
    if (operations[i].type < kWait32 || operations[i].type > kBarrier) return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < count; ++i) {
    const Operation& one = operations[i];
    const auto narrow = static_cast<std::uint32_t>(one.value);
    CUresult result = CUDA_SUCCESS;  // a barrier: a stream's operations are in order here anyhow
    switch (one.type) {
      case kWait32: result = wait_value(handle, per_thread, one.address, narrow, 4, one.flags); break;
      case kWait64: result = wait_value(handle, per_thread, one.address, one.value, 8, one.flags); break;
      case kWrite32: result = write_value(handle, per_thread, one.address, narrow, 4, one.flags); break;
      case kWrite64: result = write_value(handle, per_thread, one.address, one.value, 8, one.flags); break;
      default: break;
    }
    SIM_TRY(result);
  }
  return CUDA_SUCCESS;
}

}  // namespace

// A function in its two versions and two default-stream forms: the simulator's two versions do the same.
#define SIM_VALUE_ENTRY(name, call, type, per_thread)                                       \
  SIM_API CUresult name(CUstream stream, CUdeviceptr address, type value, unsigned flags) { \
    SIM_ENTER(name);                                                                        \
    return call(stream, per_thread, address, value, sizeof value, flags);                   \
  }
#define SIM_VALUE(name, call, type)              \
  SIM_VALUE_ENTRY(name, call, type, false)       \
  SIM_VALUE_ENTRY(name##_ptsz, call, type, true) \
  SIM_VALUE_ENTRY(name##_v2, call, type, false)  \
  SIM_VALUE_ENTRY(name##_v2_ptsz, call, type, true)

SIM_VALUE(cuStreamWaitValue32, wait_value, cuuint32_t)
SIM_VALUE(cuStreamWaitValue64, wait_value, cuuint64_t)
SIM_VALUE(cuStreamWriteValue32, write_value, cuuint32_t)
SIM_VALUE(cuStreamWriteValue64, write_value, cuuint64_t)

#define SIM_BATCH(name, per_thread)                                                                          \
  SIM_API CUresult name(CUstream stream, unsigned n, CUstreamBatchMemOpParams* operations, unsigned flags) { \
    SIM_ENTER(name);                                                                                         \
    return batch(stream, per_thread, n, operations, flags);                                                  \
  }
SIM_BATCH(cuStreamBatchMemOp, false)
SIM_BATCH(cuStreamBatchMemOp_ptsz, true)
SIM_BATCH(cuStreamBatchMemOp_v2, false)
SIM_BATCH(cuStreamBatchMemOp_v2_ptsz, true)

}  // namespace headgate::sim::driver
