// Number of blocks of a kernel that an SM holds at once, from the profile.
#include <algorithm>

#include "sim/driver/module/module.hpp"

namespace headgate::sim::driver {
namespace {

using SharedOf = std::size_t (*)(int block);  // CUoccupancyB2DSize

CUresult blocks_per_sm(int* blocks, CUfunction handle, int threads, std::size_t shared) {
  if (!blocks || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Function, function, function_of(handle, &function));
  const Profile& p = library().profile();
  std::uint64_t most =
      std::min<std::uint64_t>(p.max_blocks_per_sm, p.max_threads_per_sm / static_cast<unsigned>(threads));
  const std::uint64_t each = shared + function->entry->shared_bytes;
  if (each > 0) most = std::min<std::uint64_t>(most, p.shared_bytes_per_sm / each);
  return give(blocks, static_cast<unsigned>(threads) > p.max_threads_per_block ? 0 : static_cast<int>(most));
}

// Returns the largest block size that keeps the most threads active.
CUresult best_block(int* grid, int* block, CUfunction function, SharedOf shared_of, std::size_t shared, int limit) {
  if (!grid || !block || limit < 0) return CUDA_ERROR_INVALID_VALUE;
  const Profile& p = library().profile();
  int largest = static_cast<int>(p.max_threads_per_block);
  if (limit != 0) largest = std::min(largest, limit);
  int best_threads = 0;
  *grid = *block = 0;
  for (int threads = largest; threads > 0; threads = threads % 32 == 0 ? threads - 32 : threads / 32 * 32) {
    int blocks = 0;
    SIM_TRY(blocks_per_sm(&blocks, function, threads, shared_of ? shared_of(threads) : shared));
    if (blocks * threads <= best_threads) continue;
    best_threads = blocks * threads;
    *block = threads;
    *grid = blocks * static_cast<int>(p.sm_count);
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIM_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
         (int* blocks, CUfunction function, int threads, std::size_t shared),
         blocks_per_sm(blocks, function, threads, shared))
SIM_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
         (int* blocks, CUfunction function, int threads, std::size_t shared, unsigned flags),
         flags > 1 ? CUDA_ERROR_INVALID_VALUE : blocks_per_sm(blocks, function, threads, shared))
SIM_CALL(cuOccupancyMaxPotentialBlockSize,
         (int* grid, int* block, CUfunction function, SharedOf shared_of, std::size_t shared, int limit),
         best_block(grid, block, function, shared_of, shared, limit))
SIM_CALL(cuOccupancyMaxPotentialBlockSizeWithFlags,
         (int* grid, int* block, CUfunction function, SharedOf shared_of, std::size_t shared, int limit,
          unsigned flags),
         flags > 1 ? CUDA_ERROR_INVALID_VALUE : best_block(grid, block, function, shared_of, shared, limit))
SIM_API CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, CUfunction handle, int blocks,
                                                         int threads) {
  SIM_ENTER(cuOccupancyAvailableDynamicSMemPerBlock);
  if (!bytes || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  SIM_GET(Function, function, function_of(handle, &function));
  const Profile& p = library().profile();
  const std::uint64_t each = p.shared_bytes_per_sm / static_cast<unsigned>(blocks);
  const std::uint64_t room = each > function->entry->shared_bytes ? each - function->entry->shared_bytes : 0;
  return give(bytes, std::min<std::uint64_t>(room, p.shared_bytes_per_block_optin));
}

}  // namespace headgate::sim::driver
