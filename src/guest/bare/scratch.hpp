// Mapped memory for an object too large for the stack of a thread that is not ours; unmapped at the end of its scope.
#pragma once

#include <sys/mman.h>

#include <cerrno>

namespace headgate::bare {

// T must be trivial; it starts zeroed. False if mmap fails. Keeps errno.
template <typename T>
class Scratch {
 public:
  Scratch() {
    const int saved = errno;
    void* at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at_ = at == MAP_FAILED ? nullptr : static_cast<T*>(at);
    errno = saved;
  }
  ~Scratch() {
    const int saved = errno;
    if (at_ != nullptr) ::munmap(at_, sizeof(T));
    errno = saved;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  explicit operator bool() const { return at_ != nullptr; }
  T& operator*() const { return *at_; }

 private:
  T* at_ = nullptr;
};

}  // namespace headgate::bare
