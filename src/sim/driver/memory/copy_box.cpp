// Resolves a copy's two ends, checks that the box fits them, and moves the bytes.
#include <cstring>
#include <memory>

#include "sim/driver/graph/capture.hpp"
#include "sim/driver/memory/array.hpp"
#include "sim/driver/memory/copy.hpp"
#include "sim/driver/memory/mappings.hpp"
#include "sim/driver/memory/memory.hpp"
#include "sim/driver/memory/pool.hpp"
#include "sim/driver/stream/payload.hpp"

namespace headgate::sim::driver {
namespace {

constexpr std::size_t kMaxPitch = 0x7fffffff;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH

bool per_thread(CopyMode mode) { return mode == CopyMode::wait_per_thread || mode == CopyMode::async_per_thread; }
bool waits(CopyMode mode) { return mode == CopyMode::wait || mode == CopyMode::wait_per_thread; }

struct Extent {
  std::size_t width, height, depth;
  [[nodiscard]] std::size_t bytes() const { return width * height * depth; }
};

// Start address of the box on one side, and the distances between its rows and slices.
struct Side {
  std::uint64_t at = 0;
  std::size_t pitch = 0, slice = 0, span = 0;  // span: first byte to end of the last
  bool on_device = false, pageable = false;
  std::uint32_t device = kNone;  // its number in the node; kNone: host memory, or mapped from several devices
};

// Returns false if a product or sum overflows: no memory holds such a box.
bool lay_out(const CopyEnd& end, const Extent& box, std::size_t pitch, std::size_t rows, std::uint64_t base,
             Side* out) {
  unsigned __int128 slice = static_cast<unsigned __int128>(pitch) * rows;
  const unsigned __int128 begin = slice * end.z + static_cast<unsigned __int128>(pitch) * end.y + end.x;
  const unsigned __int128 span =
      slice * (box.depth - 1) + static_cast<unsigned __int128>(pitch) * (box.height - 1) + box.width;
  constexpr unsigned __int128 kMost = 1ull << 62;
  if (slice > kMost || begin > kMost || span > kMost) return false;
  out->at = base + static_cast<std::uint64_t>(begin);
  out->pitch = pitch;
  out->slice = static_cast<std::size_t>(slice);
  out->span = static_cast<std::size_t>(span);
  return true;
}

CUresult array_side(const CopyEnd& end, const Extent& box, Side* out) {
  SIM_GET(Array, array, resolve(end.array, &array));
  const bool fits = end.x <= array->row_bytes() && box.width <= array->row_bytes() - end.x && end.y <= array->rows() &&
                    box.height <= array->rows() - end.y && end.z <= array->slices() &&
                    box.depth <= array->slices() - end.z;
  const bool whole_texels = end.x % array->texel_bytes == 0 && box.width % array->texel_bytes == 0;
  if (!fits || !whole_texels || array->base == 0) return CUDA_ERROR_INVALID_VALUE;
  lay_out(end, box, array->row_bytes(), array->rows(), array->base, out);
  out->on_device = true;
  out->device = array->context->node_device;
  return CUDA_SUCCESS;
}

std::uint32_t device_of(const Allocation& found) {
  if (found.pool != nullptr) return library().visible[static_cast<std::size_t>(found.pool->device)];
  return found.context != nullptr ? found.context->node_device : kNone;
}

CUresult linear_side(const CopyEnd& end, const Extent& box, Side* out) {
  const std::uint64_t base = end.type == kHostMemory ? reinterpret_cast<std::uint64_t>(end.host) : end.device;
  if (base == 0) return CUDA_ERROR_INVALID_VALUE;
  if (end.x > kMaxPitch && box.height > 1) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t pitch = end.pitch != 0 ? end.pitch : end.x + box.width;
  const std::size_t rows = end.height != 0 ? end.height : end.y + box.height;
  if (box.height > 1 || box.depth > 1) {
    if (pitch < box.width || pitch - box.width < end.x || pitch > kMaxPitch) return CUDA_ERROR_INVALID_VALUE;
  }
  if (box.depth > 1 && (rows < box.height || rows - box.height < end.y)) return CUDA_ERROR_INVALID_VALUE;
  if (!lay_out(end, box, pitch, rows, base, out)) return CUDA_ERROR_INVALID_VALUE;
  Allocation found;
  const bool known = find_allocation(out->at, &found);
  if (known && !reaches(found, out->at, out->span)) return CUDA_ERROR_INVALID_VALUE;
  if (!known && end.type == kDeviceMemory) return CUDA_ERROR_INVALID_VALUE;
  out->on_device =
      end.type == kDeviceMemory || (end.type == kUnifiedMemory && known && found.type == MemoryType::device);
  out->pageable = !known;
  if (out->on_device && known && !found.managed) out->device = device_of(found);
  if (out->on_device && found.managed) touch_managed(found.base, out->at, out->span);
  return CUDA_SUCCESS;
}

CUresult side_of(const CopyEnd& end, const Extent& box, Side* out) {
  if (end.lod != 0) return CUDA_ERROR_INVALID_VALUE;
  return end.type == kArrayMemory ? array_side(end, box, out) : linear_side(end, box, out);
}

template <typename Row>
void each_row(const Extent& box, Row row) {
  for (std::size_t z = 0; z < box.depth; ++z) {
    for (std::size_t y = 0; y < box.height; ++y) row(z, y);
  }
}
std::uint64_t row_at(const Side& side, std::size_t z, std::size_t y) {
  return side.at + z * side.slice + y * side.pitch;
}

void move_box(const Side& to, const Side& from, const Extent& box) {
  each_row(box, [&](std::size_t z, std::size_t y) {
    std::memmove(reinterpret_cast<void*>(row_at(to, z, y)), reinterpret_cast<const void*>(row_at(from, z, y)),
                 box.width);
  });
  refresh_flags(to.at, to.span);
}

// A copy between two devices counts on their links. Not modelled: which link, and peer accesses by kernels.
void count_on_links(const Side& to, const Side& from, std::uint64_t bytes) {
  if (to.device == kNone || from.device == kNone || to.device == from.device) return;
  NvmlDevice* const devices = library().state().nvml;
  devices[from.device].nvlink_sent_bytes.fetch_add(bytes, std::memory_order_relaxed);
  devices[to.device].nvlink_received_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

// Bytes from unpinned memory are read at the call, because a driver stages them.
std::function<void()> moving(const Side& to, const Side& from, const Extent& box, bool stage) {
  if (!stage)
    return [=] {
      move_box(to, from, box);
      count_on_links(to, from, box.bytes());
    };
  auto staged = std::make_shared<std::vector<std::byte>>(box.bytes());
  Side packed;
  packed.at = reinterpret_cast<std::uint64_t>(staged->data());
  packed.pitch = box.width;
  packed.slice = box.width * box.height;
  each_row(box, [&](std::size_t z, std::size_t y) {
    std::memcpy(reinterpret_cast<void*>(row_at(packed, z, y)), reinterpret_cast<const void*>(row_at(from, z, y)),
                box.width);
  });
  return [=] {
    const auto keep = staged;
    move_box(to, packed, box);
  };
}

bool known_type(unsigned type) { return type >= kHostMemory && type <= kUnifiedMemory; }

CUresult sides_of(const CopyParams& what, const Extent& box, Side* from, Side* to) {
  if (!known_type(what.from.type) || !known_type(what.to.type)) return CUDA_ERROR_INVALID_VALUE;
  if (box.width == 0 || box.height == 0 || box.depth == 0) return CUDA_SUCCESS;
  SIM_TRY(side_of(what.from, box, from));
  SIM_TRY(side_of(what.to, box, to));
  // If neither address has a type, at least one must be known to the driver.
  const bool untold = what.from.type == kUnifiedMemory && what.to.type == kUnifiedMemory;
  return untold && from->pageable && to->pageable ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CommandKind kind_of(const Side& from, const Side& to) {
  return to.on_device == from.on_device ? CommandKind::copy_on_device
         : to.on_device                 ? CommandKind::copy_to_device
                                        : CommandKind::copy_to_host;
}

}  // namespace

CUresult enqueue_copy(Stream* stream, CommandKind kind, std::uint64_t bytes, bool wait, std::function<void()> act) {
  count(counters(stream->context).copies);
  std::uint64_t number = 0;
  {
    const std::lock_guard guard(stream->context->lock);
    Command command;
    command.kind = kind;
    command.amount = bytes;
    SIM_TRY(submit_locked(stream, command, &number));
    add_payload(stream, number, std::move(act));
  }
  return wait ? wait_for(stream, number) : CUDA_SUCCESS;
}

CUresult prepare_box(const CopyParams& what, PreparedCopy* out) {
  const Extent box{what.width, what.height, what.depth};
  if (box.width == 0 || box.height == 0 || box.depth == 0) return CUDA_ERROR_INVALID_VALUE;
  Side from, to;
  SIM_TRY(sides_of(what, box, &from, &to));
  *out = {kind_of(from, to), box.bytes(), moving(to, from, box, false)};
  return CUDA_SUCCESS;
}

CUresult copy_box(const CopyParams& what, CUstream handle, CopyMode mode) {
  SIM_GET(Stream, stream, stream_of(handle, per_thread(mode), &stream));
  const Extent box{what.width, what.height, what.depth};
  Side from, to;
  SIM_TRY(sides_of(what, box, &from, &to));
  if (box.width == 0 || box.height == 0 || box.depth == 0) return CUDA_SUCCESS;
  if (is_capturing(stream)) return capture_copy(stream, what);
  // A copy to pageable memory returns after it is done, even from an asynchronous call.
  const bool wait = waits(mode) || to.pageable;
  return enqueue_copy(stream, kind_of(from, to), box.bytes(), wait, moving(to, from, box, from.pageable && !wait));
}

}  // namespace headgate::sim::driver
