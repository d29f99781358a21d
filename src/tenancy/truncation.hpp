// Keeps the daemon alive when a tenant shortens a page that both have mapped: a load past a file's end is a SIGBUS.
//
// A tenant needs a writable descriptor of its share's usage page, and that also lets it shorten the file. Files that were
// sealed against it cannot be found again by a restarted daemon, so the fault is taken instead: the whole mapping is replaced
// by zeroes of our own, and the share is known as spoiled from then on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headgate::tenancy {

// One mapping under guard; movable, not copyable. At most kMaxGuards at once in a process; more are not guarded (false).
class TruncationGuard {
 public:
  // Of each share there are two mappings, the loop's and the arbiter's, for 4,096 shares; and some for those that are being
  // mapped anew.
  static constexpr std::size_t kMaxGuards = 2 * 4096 + 64;

  TruncationGuard() = default;
  // Installs the process's SIGBUS handler at the first call. `bytes` are rounded up to pages.
  TruncationGuard(void* at, std::size_t bytes);
  TruncationGuard(TruncationGuard&& other) noexcept;
  TruncationGuard& operator=(TruncationGuard&& other) noexcept;
  ~TruncationGuard();

  [[nodiscard]] explicit operator bool() const { return slot_ != kNone; }
  // Whether somebody shortened the file and we met it. Thread-safe.
  [[nodiscard]] bool spoiled() const;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t slot_ = kNone;
};

// While it lives, this thread also survives a load past the end of a mapped file that is under no guard: the page that was
// asked for is zeroes from then on. For code that maps a tenant's page itself and unmaps it before it returns, between whose look
// at the file's size and its first load a tenant may shorten the file.
class TruncationScope {
 public:
  TruncationScope();
  TruncationScope(const TruncationScope&) = delete;
  TruncationScope& operator=(const TruncationScope&) = delete;
  ~TruncationScope();
};

}  // namespace headgate::tenancy
