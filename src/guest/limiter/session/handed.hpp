// What headgated hands out as descriptors (guest/ledger/registration.hpp), mapped.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace headgate::limiter {

// One and the same for as long as something of it is mapped. All zeroes: of no file.
struct HandedFile {
  std::uint64_t device = 0, inode = 0;
  friend bool operator==(const HandedFile&, const HandedFile&) = default;
};
inline HandedFile file_of(int fd) {
  struct stat status{};
  if (fd < 0 || ::syscall(SYS_fstat, fd, &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

// Null where there is no descriptor, where it is not of just so many bytes, and where it cannot be mapped.
inline void* map_handed(int fd, std::size_t bytes, int protection) {
  struct stat status{};
  // By system call: fstat() is no symbol of GLIBC 2.17.
  if (fd < 0 || ::syscall(SYS_fstat, fd, &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes)
    return nullptr;
  void* const at = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace headgate::limiter
