// Mapped memory for what is too large for the stack of a thread that is not ours; unmapped at the end of its scope.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "guest/bare/keep_errno.hpp"

namespace headgate::bare {

// Starts zeroed. at() is null if mmap fails. Keeps errno.
class MappedMemory {
 public:
  explicit MappedMemory(std::size_t bytes) : bytes_(bytes) {
    const KeepErrno keep_errno;
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    at_ = at == MAP_FAILED ? nullptr : at;
  }
  ~MappedMemory() {
    const KeepErrno keep_errno;
    if (at_ != nullptr) ::munmap(at_, bytes_);
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  [[nodiscard]] void* at() const { return at_; }

 private:
  std::size_t bytes_;
  void* at_ = nullptr;
};

// One object, whose type must be trivial. False if there is no memory for it.
template <typename T>
class Scratch {
 public:
  explicit operator bool() const { return memory_.at() != nullptr; }
  T& operator*() const { return *static_cast<T*>(memory_.at()); }

 private:
  MappedMemory memory_{sizeof(T)};
};

}  // namespace headgate::bare
