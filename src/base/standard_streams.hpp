// Of a process that was started with standard streams closed.
#pragma once

#include <fcntl.h>

#include <cerrno>

namespace headgate {

// /dev/null for each of them, for this process alone: a program that it starts finds them closed, as whoever started
// both wanted. Else the next files that are opened would be its standard input, output and error. Where there is no
// /dev/null all stays as it is.
inline void fill_standard_streams() {
  for (int stream = 0; stream < 3; ++stream)
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF && ::open("/dev/null", O_RDWR | O_CLOEXEC) < 0) return;
}

}  // namespace headgate
