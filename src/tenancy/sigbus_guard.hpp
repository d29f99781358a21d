// Keeps the daemon alive when a tenant shortens a page that both have mapped: a load past a file's end is a SIGBUS.
//
// A tenant needs a writable descriptor of its share's usage page, and that also lets it shorten the file. Files that
// were sealed against it cannot be found again by a restarted daemon, so the fault is taken instead: the whole mapping
// is replaced by zeroes of our own, and the share is known as spoiled from then on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headgate::tenancy {

// One mapping under guard; movable, not copyable. At most kMaxGuards at once in a process; more are not guarded
// (false).
class SigbusGuard {
 public:
  // Of each share there are two mappings, the loop's and the arbiter's, for 4,096 shares; and some for those that are
  // being mapped anew.
  static constexpr std::size_t kMaxGuards = 2 * 4096 + 64;

  SigbusGuard() = default;
  // Installs the process's SIGBUS handler at the first call. `bytes` are rounded up to pages.
  SigbusGuard(void* at, std::size_t bytes);
  SigbusGuard(SigbusGuard&& other) noexcept;
  SigbusGuard& operator=(SigbusGuard&& other) noexcept;
  ~SigbusGuard();

  [[nodiscard]] explicit operator bool() const { return slot_ != kNone; }
  // Whether somebody shortened the file and we met it. Thread-safe.
  [[nodiscard]] bool truncated() const;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t slot_ = kNone;
};

// While it lives, this thread also survives a load past the end of a mapped file that is under no guard: the page that
// was asked for is zeroes from then on. For code that maps a tenant's page itself and unmaps it before it returns,
// between whose look at the file's size and its first load a tenant may shorten the file.
class SigbusScope {
 public:
  SigbusScope();
  SigbusScope(const SigbusScope&) = delete;
  SigbusScope& operator=(const SigbusScope&) = delete;
  ~SigbusScope();
};

}  // namespace headgate::tenancy
