// How much device memory the loading of an image takes, by what the image says: PTX text, a cubin, or a fat binary of
// both.
#pragma once

#include <cstdint>

namespace headgate::limiter {

struct ImageNeeds {
  std::uint64_t static_bytes = 0;  // arrays; taken by the load
  std::uint64_t code_bytes = 0;    // of all its kernels at most; a driver may take it at their first launches
  bool told = false;               // false: static_bytes may be more, and shows only after the load
};

// `image`: as cuModuleLoadData takes it; `architecture`: of the GPU, as 90 for 9.0. What LZ4 packed is unpacked for the
// look; of what zstd packed, only its unpacked size is told, as code. Not told of what is not understood. Sections of ABI version 7 and 8 cubins and fat binaries of CUDA 11 to 13 were compared with cuobjdump's.
// Reads no byte that is not mapped.
ImageNeeds needs_of_image(const void* image, unsigned architecture);
// The same of a file. Errors: not told.
ImageNeeds needs_of_file(const char* path, unsigned architecture);

}  // namespace headgate::limiter
