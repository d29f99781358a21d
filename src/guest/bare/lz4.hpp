// The raw block of LZ4, without its library: fat binaries hold their images so. Format: lz4's doc/lz4_Block_format.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headgate::bare {

// Fills `out` with what a block unpacks to. False where the block is damaged or unpacks to another size; `out` then
// holds anything. Reads and writes no byte beyond the two.
bool unpack_lz4(const std::uint8_t* block, std::size_t block_bytes, std::uint8_t* out, std::size_t bytes);

}  // namespace headgate::bare
