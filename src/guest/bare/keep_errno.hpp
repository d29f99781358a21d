// The host program's errno: what we do between its calls must not change it.
#pragma once

#include <cerrno>

namespace headgate::bare {

// Restores errno at the end of the scope.
class KeepErrno {
 public:
  KeepErrno() = default;
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int saved_ = errno;
};

}  // namespace headgate::bare
