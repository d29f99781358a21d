// External semaphores: words of the node that streams set and wait for. The file behind a descriptor identifies one, so
// any file that both sides have open will do.
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>

#include "sim/driver/graph/capture.hpp"

namespace headgate::sim::driver {
namespace {

constexpr unsigned kOpaqueFd = 1, kTimelineFd = 9, kLastType = 10;  // cuda.h: CUexternalSemaphoreHandleType
constexpr unsigned kKnownFlags = 3;                                 // of a signal and a wait; only NvSci uses them

// cuda.h: CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, and the parameters of a signal and a wait, which begin alike.
struct HandleDesc {
  std::uint32_t type, padding;
  union {
    int fd;
    void* win32[2];
  } handle;
  std::uint32_t flags, reserved[16];
};
static_assert(sizeof(HandleDesc) == 96);
struct Parameters {
  std::uint64_t value;
  std::uint32_t other[16];
  std::uint32_t flags, reserved[17];
};
static_assert(sizeof(Parameters) == 144 && offsetof(Parameters, flags) == 72);

struct Semaphore : Handled<0x6873656d> {
  std::uint32_t flag = kNone;  // of the node
  bool timeline = false;       // else a wait consumes the signal
};
// Does not collide with keys of numbered flags (below 2^32) and of shared memory (bit 63).
std::uint64_t key_of(const struct stat& file) {
  std::uint64_t mixed = (file.st_ino ^ (std::uint64_t{file.st_dev} << 32)) * 0x9e3779b97f4a7c15ull;
  mixed ^= mixed >> 29;
  return (mixed & ~(3ull << 62)) | 1ull << 62;
}

CUresult send(Stream* stream, CommandKind kind, std::uint32_t flag, std::uint64_t value) {
  Command command;
  command.kind = kind;
  command.amount = value;
  command.detail = kFlagWide | kFlagAtLeast;
  (kind == CommandKind::set_flag ? command.set_flag : command.wait_flag) = flag;
  return submit(stream, command);
}

CUresult signal(Stream* stream, const Semaphore& semaphore, std::uint64_t value) {
  return send(stream, CommandKind::set_flag, semaphore.flag, semaphore.timeline ? value : 1);
}

CUresult wait(Stream* stream, const Semaphore& semaphore, std::uint64_t value) {
  SIM_TRY(send(stream, CommandKind::wait_flag, semaphore.flag, semaphore.timeline ? value : 1));
  return semaphore.timeline ? CUDA_SUCCESS : send(stream, CommandKind::set_flag, semaphore.flag, 0);
}

// Checks all before the first is sent.
CUresult each(const CUexternalSemaphore* list, const Parameters* parameters, unsigned count, CUstream handle,
              bool per_thread, CUresult (*act)(Stream*, const Semaphore&, std::uint64_t)) {
  if (count != 0 && (!list || !parameters)) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Stream, stream, stream_of(handle, per_thread, &stream));
  for (unsigned i = 0; i < count; ++i) {
    if (!object<Semaphore>(list[i])) return CUDA_ERROR_INVALID_HANDLE;
    if ((parameters[i].flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < count; ++i) SIM_TRY(act(stream, *object<Semaphore>(list[i]), parameters[i].value));
  return CUDA_SUCCESS;
}

template <typename Driver>
const Parameters* own(const Driver* parameters) {
  return reinterpret_cast<const Parameters*>(parameters);
}

}  // namespace

SIM_API CUresult cuImportExternalSemaphore(CUexternalSemaphore* out, const HandleDesc* asked) {
  SIM_ENTER(cuImportExternalSemaphore);
  if (!out || !asked || asked->flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (asked->type != kOpaqueFd && asked->type != kTimelineFd)
    return asked->type >= 1 && asked->type <= kLastType ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Context, context, current_context(&context));
  struct stat file{};
  if (::fstat(asked->handle.fd, &file) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::uint32_t flag = Node::Locked(*library().node)->flag(kNone, key_of(file));
  if (flag == kNone) return CUDA_ERROR_OUT_OF_MEMORY;
  ::close(asked->handle.fd);  // on success the driver owns it, and no longer needs it
  Semaphore* semaphore = recycled<Semaphore>().take();
  semaphore->flag = flag;
  semaphore->timeline = asked->type == kTimelineFd;
  semaphore->publish();
  return give(out, semaphore);
}
SIM_API CUresult cuDestroyExternalSemaphore(CUexternalSemaphore handle) {
  SIM_ENTER(cuDestroyExternalSemaphore);
  SIM_GET(Semaphore, semaphore, resolve(handle, &semaphore));
  recycled<Semaphore>().give(semaphore);
  return CUDA_SUCCESS;
}

#define SIM_SEMAPHORES(name, type, act)                                                                           \
  SIM_CALL_PTSZ(name, (const CUexternalSemaphore* list, const type* parameters, unsigned count, CUstream stream), \
                each(list, own(parameters), count, stream, per_thread, act))
SIM_SEMAPHORES(cuSignalExternalSemaphoresAsync, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, signal)
SIM_SEMAPHORES(cuWaitExternalSemaphoresAsync, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, wait)

}  // namespace headgate::sim::driver
