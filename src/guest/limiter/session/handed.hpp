// Maps what headgated hands out as descriptors (guest/ledger/registration.hpp).
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace headgate::limiter {

// Identifies a file while part of it is mapped. All zeroes: no file.
struct HandedFile {
  std::uint64_t device = 0, inode = 0;
  friend bool operator==(const HandedFile&, const HandedFile&) = default;
};
inline HandedFile file_of(int fd) {
  struct stat status{};
  if (fd < 0 || ::syscall(SYS_fstat, fd, &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

// Returns null without a descriptor, if the file's size is not `bytes`, or if it cannot be mapped.
inline void* map_handed(int fd, std::size_t bytes, int protection) {
  struct stat status{};
  // By system call: GLIBC 2.17 has no fstat() symbol.
  if (fd < 0 || ::syscall(SYS_fstat, fd, &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes)
    return nullptr;
  void* const at = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace headgate::limiter
