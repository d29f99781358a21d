// Estimates the device memory for a module's static arrays from its image. Pure.
#pragma once

#include <cstdint>

namespace headgate::limiter {

// Returns the bytes that PTX text declares in state space .global; 0 for null and other images (cubin, fat binary). ABI
// facts: PTX ISA, "Variables"; cuda.h: a PTX image ends in a NUL. A hostile text can give a wrong figure: what the load
// really took is measured later.
std::uint64_t static_bytes(const void* image);
// Returns whether an image, not null, starts like PTX text.
bool is_ptx(const void* image);

}  // namespace headgate::limiter
