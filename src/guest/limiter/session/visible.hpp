// Which GPUs the program sees, before its driver looks.
#pragma once

namespace headgate::limiter {

// Called before the driver's cuInit. In a program that `headgate run` started, a child of one, or one whose share is
// mounted or named by its directory, numbers in CUDA_VISIBLE_DEVICES are turned into the share's UUIDs, UUIDs are
// spelled as the driver does (grant/numbering.hpp), and a variable that is not set is set to all of them. Writes this
// process's environment, as the program itself would have: once, and never in one with raised privileges.
void number_visible_devices();

}  // namespace headgate::limiter
