// Unpacks raw LZ4 blocks, as fat binaries hold them, without the library. Format: lz4's doc/lz4_Block_format.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headgate::bare {

// Unpacks a block into `out`. Returns false if it is damaged or unpacks to another size; `out` is then undefined. Reads
// and writes nothing outside the two buffers.
bool unpack_lz4(const std::uint8_t* block, std::size_t block_bytes, std::uint8_t* out, std::size_t bytes);

}  // namespace headgate::bare
