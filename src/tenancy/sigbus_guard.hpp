// Keeps the daemon alive when a tenant shortens a page that both have mapped: a load past a file's end is a SIGBUS.
//
// A tenant needs a writable descriptor of its share's usage page, and that also lets it shorten the file. A restarted
// daemon cannot find files again that were sealed against it. So the fault is handled: zeroes replace the whole
// mapping, and the share counts as truncated from then on.
#pragma once

#include <cstddef>

namespace headgate::tenancy {

// Guards one mapping; movable, not copyable. At most kMaxGuards at once in a process; beyond that, nothing is guarded
// (false).
class SigbusGuard {
 public:
  // Each share has two mappings, the loop's and the arbiter's, for 4,096 shares; the rest is for shares that are being
  // mapped again.
  static constexpr std::size_t kMaxGuards = 2 * 4096 + 64;

  SigbusGuard() = default;
  // Installs the process's SIGBUS handler at the first call. `bytes` are rounded up to pages.
  SigbusGuard(void* at, std::size_t bytes);
  SigbusGuard(SigbusGuard&& other) noexcept;
  SigbusGuard& operator=(SigbusGuard&& other) noexcept;
  ~SigbusGuard();

  [[nodiscard]] explicit operator bool() const { return slot_ != kNone; }
  // Returns whether the file was shortened and an access met that. Thread-safe.
  [[nodiscard]] bool truncated() const;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t slot_ = kNone;
};

// While it lives, this thread also survives a load past the end of a mapped file without a guard: the page accessed is
// zeroes from then on. For code that maps a tenant's page itself and unmaps it before it returns: the file may shrink
// between the check of its size and the first load.
class SigbusScope {
 public:
  SigbusScope();
  SigbusScope(const SigbusScope&) = delete;
  SigbusScope& operator=(const SigbusScope&) = delete;
  ~SigbusScope();
};

}  // namespace headgate::tenancy
