// What is done before the driver's cuInit: it decides which GPUs the program sees, and whether it is a client of MPS.
#pragma once

namespace headgate::limiter {

// Applies to programs started by `headgate run`, their children, and those with a mounted share or one named by
// directory. Numbers in CUDA_VISIBLE_DEVICES become the share's UUIDs, UUIDs get the driver's spelling
// (grant/numbering.hpp), and an unset variable is set to all of them. Writes this process's environment, once; never
// with raised privileges.
void number_visible_devices();

// cuInit goes on without MPS if no control daemon listens in CUDA_MPS_PIPE_DIRECTORY, as before the first program of a
// container. Then, if the share is one of headgated's, by its directory, the process registers there, which starts the
// daemon, and waits for it, 2 s at most. Else it returns at once.
void await_mps_daemon();

}  // namespace headgate::limiter
