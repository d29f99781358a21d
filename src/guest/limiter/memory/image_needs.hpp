// Estimates the device memory that loading an image takes, from the image: PTX text, a cubin, or a fat binary of both.
#pragma once

#include <cstdint>

namespace headgate::limiter {

struct ImageNeeds {
  std::uint64_t static_bytes = 0;  // arrays; taken by the load
  // Of all its kernels, with their parameters' constants, at most; a driver may take it at their first launch.
  std::uint64_t code_bytes = 0;
  bool told = false;  // false: static_bytes may be more, and shows only after the load
};

// `image`: as for cuModuleLoadData; `architecture`: of the GPU, 90 for 9.0. Unpacks LZ4; zstd counts by its unpacked
// size, as code. Not told if not understood. Reads only mapped bytes. Checked against cuobjdump for cubins of ABI
// versions 7 and 8 and fat binaries of CUDA 11 to 13.
ImageNeeds needs_of_image(const void* image, unsigned architecture);
// The same for a file. On an error: not told.
ImageNeeds needs_of_file(const char* path, unsigned architecture);

}  // namespace headgate::limiter
