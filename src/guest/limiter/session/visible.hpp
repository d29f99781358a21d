// Which GPUs the program sees; decided before its driver looks.
#pragma once

namespace headgate::limiter {

// Call before the driver's cuInit. Applies to programs started by `headgate run`, their children, and those with a
// mounted share or one named by directory. Numbers in CUDA_VISIBLE_DEVICES become the share's UUIDs, UUIDs get the
// driver's spelling (grant/numbering.hpp), and an unset variable is set to all of them. Writes this process's
// environment, once; never with raised privileges.
void number_visible_devices();

}  // namespace headgate::limiter
