// How much device memory a module will take for its static arrays, by what its image says. Pure.
#pragma once

#include <cstdint>

namespace headgate::limiter {

// What an image of PTX text declares in the state space .global, in bytes; 0 for null and for any other image (cubin,
// fat binary), whose size shows only after the load. ABI fact: PTX ISA, "Variables"; cuda.h: a PTX image ends in a NUL.
// A hostile text can give a wrong figure: what the load really took is measured later.
std::uint64_t static_bytes(const void* image);
// Whether an image, not null, begins as PTX text does.
bool is_ptx(const void* image);

}  // namespace headgate::limiter
