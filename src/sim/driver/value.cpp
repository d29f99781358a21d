// cuStreamWaitValue and cuStreamWriteValue: a stream that waits for a word of memory, or writes one. Words change by what
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

}  // namespace headgate::sim::driver
