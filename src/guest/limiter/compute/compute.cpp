#include "guest/limiter/compute/compute.hpp"

namespace headgate::limiter {

void compute_start() {}
void compute_forget_context(abi::CUcontext) {}
void compute_reset_after_fork() {}

}  // namespace headgate::limiter
