// A program of a container comes to its MPS server before anyone has started one for it.
#pragma once

namespace headgate::limiter {

// Before the driver's cuInit, which goes on without MPS where no control daemon listens in CUDA_MPS_PIPE_DIRECTORY. If
// none does and the share is one of headgated's, by its directory, the process registers there, which starts the
// daemon, and waits for it, 2 s at most. Else it returns at once.
void await_mps_daemon();

}  // namespace headgate::limiter
