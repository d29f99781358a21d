// The page of a GPU that the daemon shows its shares (guest/ledger/gpu_page.hpp). It holds the marks of each share's
// own page side by side, so that none can write what another reads. Pure: time is an argument.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guest/ledger/gpu_page.hpp"
#include "guest/ledger/layout.hpp"
#include "node/sealed_memory.hpp"
#include "schedule/arbiter.hpp"

namespace headgate::node {

// How old the board may be while several shares work: a replay is late by as much. If the arbiter is awake anyway, the
// board is updated after the second time.
inline constexpr std::int64_t kBoardNs = 10'000'000, kBoardSoonNs = 6'000'000;
// How soon a second share at work is seen if the arbiter's policy is off, when no limiter rings.
inline constexpr std::int64_t kUnrungNs = 100'000'000;
// A replay finds only marks that come at most this long after their time (kReplayLagNs); earlier ones were copied.
inline constexpr std::int64_t kMarkedLateNs = 10'000'000;
// A limiter that marks some work has done so within this time, unless it lost its processor.
inline constexpr std::int64_t kMarkingNs = 2'000'000;
// How far back a replay reaches for a context that is new here.
inline constexpr std::int64_t kBoardReachNs = 30'000'000;

// The board of one GPU. Not thread-safe.
class GpuBoard {
 public:
  explicit GpuBoard(ledger::GpuPage& page) : page_(page) {}

  // Copies what a share's contexts have marked on `from`, where its tenants may write anything. `share`: the generation
  // of its policy page, not 0. At most `newcomers` of the contexts that are new here get a place, the others later:
  // each costs some microseconds, and a tenant can claim each time that all are new. Returns how many got one.
  int bring(const ledger::GpuPage& from, std::uint64_t share, std::int64_t now_ns,
            int newcomers = static_cast<int>(ledger::kMaxSeats));
  void forget(std::uint64_t share);
  // Publishes that all that was marked before `now_ns` has been copied.
  void told(std::int64_t now_ns) { page_.told_ns.store(now_ns, std::memory_order_release); }
  [[nodiscard]] std::int64_t told_ns() const { return page_.told_ns.load(std::memory_order_relaxed); }

  // Returns whether the share has marked work within the last `ns`; if not for kSeatIdleNs, there is nothing to copy.
  [[nodiscard]] static bool works(const ledger::GpuPage& from, std::int64_t now_ns, std::int64_t ns) {
    const std::int64_t seen_ns = from.seen_ns.load(std::memory_order_relaxed);
    return seen_ns > now_ns - ns && seen_ns < now_ns + ns;  // a tenant wrote seen_ns: a difference could overflow
  }

 private:
  // The seat that has a place on the board.
  struct Place {
    std::uint64_t share = 0;  // 0: free
    std::uint64_t owner = 0;
    std::uint32_t seat = 0;  // on the share's own page
  };
  std::array<std::uint32_t, ledger::kMaxSeats> places_of(std::uint64_t share) const;
  std::uint32_t make_room(std::uint64_t share) const;
  void enter(std::uint32_t place, const Place& who);
  void leave(std::uint32_t place);

  ledger::GpuPage& page_;
  std::array<Place, ledger::kMaxSeats> places_{};
};

// Decides when all boards of a node are updated: again and again while several shares work on one GPU, whatever the
// policy. Not thread-safe.
class BoardTimes {
 public:
  // Returns whether to update them now; then saw() follows for each GPU.
  [[nodiscard]] bool begin(std::int64_t now_ns) {
    if (now_ns - told_ns_ < kBoardSoonNs) return false;
    told_ns_ = now_ns;
    due_ns_ = schedule::kNever;
    return true;
  }
  // `there`: shares that may mark on a GPU; `at_work`: those that work; `off`: whether the policy is off there.
  void saw(std::uint32_t there, std::uint32_t at_work, bool off) {
    if (at_work > 1) due_ns_ = std::min(due_ns_, told_ns_ + kBoardNs);
    else if (there > 1 && off) due_ns_ = std::min(due_ns_, told_ns_ + kUnrungNs);
  }
  [[nodiscard]] std::int64_t due_ns() const { return due_ns_; }

 private:
  std::int64_t told_ns_ = 0, due_ns_ = schedule::kNever;
};

// A share's own pages, one for each of its devices. Its tenants may write anything there.
class ShareMarks {
 public:
  ShareMarks() = default;  // none
  explicit ShareMarks(const ledger::PolicyPage& policy);
  explicit operator bool() const { return static_cast<bool>(memory_); }
  [[nodiscard]] const ledger::GpuPage& of(std::uint32_t device) const { return memory_.as<ledger::GpuPage>()[device]; }
  [[nodiscard]] int descriptor() const { return memory_.descriptor(); }  // to write; -1: none

 private:
  SealedMemory memory_;
};

// Not thread-safe.
class GpuBoards {
 public:
  // A GPU has no board if the kernel gives no memory for it.
  explicit GpuBoards(const std::vector<std::string>& uuids);
  [[nodiscard]] GpuBoard* of(std::uint32_t gpu) { return gpu < boards_.size() ? boards_[gpu].board.get() : nullptr; }
  [[nodiscard]] int descriptor(std::uint32_t gpu) const;  // to read; -1: none

 private:
  struct Board {
    SealedMemory memory;
    std::unique_ptr<GpuBoard> board;
  };
  std::vector<Board> boards_;
};

}  // namespace headgate::node
