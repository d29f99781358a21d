// For processes started with closed standard streams.
#pragma once

#include <fcntl.h>

#include <cerrno>

namespace headgate {

// Opens /dev/null for each closed standard stream; otherwise the next opened files would become stdin, stdout and
// stderr. Close-on-exec, so that child programs still find them closed. Does nothing without /dev/null.
inline void fill_standard_streams() {
  for (int stream = 0; stream < 3; ++stream)
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF && ::open("/dev/null", O_RDWR | O_CLOEXEC) < 0) return;
}

}  // namespace headgate
