// The page of a GPU that the daemon tells its shares (guest/ledger/gpu_page.hpp): what each of them marks on a page of
// its own, side by side, so that none can write what another reads. Pure: time is an argument.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "guest/ledger/gpu_page.hpp"
#include "schedule/arbiter.hpp"

namespace headgate::node {

// How old the board may be while several shares work: a replay is late by as much. Where the arbiter is awake anyhow it
// is told after the second.
inline constexpr std::int64_t kBoardNs = 10'000'000, kBoardSoonNs = 6'000'000;
// How soon a second share that begins to work is seen where the arbiter's policy is off: nobody rings to say so.
inline constexpr std::int64_t kUnrungNs = 100'000'000;
// Marks of a time come later than that by so much at most, if a replay is to find them (kReplayLagNs); what lies before
// was brought.
inline constexpr std::int64_t kMarkedLateNs = 10'000'000;
// How far back a replay reaches of a context that is new here.
inline constexpr std::int64_t kBoardReachNs = 30'000'000;

// Of one GPU. Not thread-safe.
class GpuBoard {
 public:
  explicit GpuBoard(ledger::GpuPage& page) : page_(page) {}

  // Brings what a share's contexts have marked on `from`, which its tenants write: anything may stand there. `share`:
  // the generation of its policy page, not 0. Of its contexts that are new here at most `newcomers` are given a place,
  // the others another time: each costs some microseconds, and a tenant can say each time that all are new. Returns how
  // many were.
  int bring(const ledger::GpuPage& from, std::uint64_t share, std::int64_t now_ns,
            int newcomers = static_cast<int>(ledger::kMaxSeats));
  void forget(std::uint64_t share);
  // All that was marked before `now_ns` has been brought.
  void told(std::int64_t now_ns) { page_.told_ns.store(now_ns, std::memory_order_release); }
  [[nodiscard]] std::int64_t told_ns() const { return page_.told_ns.load(std::memory_order_relaxed); }

  // Whether the share has marked work there within the last `ns`; where not for kSeatIdleNs there is nothing to bring.
  [[nodiscard]] static bool works(const ledger::GpuPage& from, std::int64_t now_ns, std::int64_t ns) {
    const std::int64_t seen_ns = from.seen_ns.load(std::memory_order_relaxed);
    return seen_ns > now_ns - ns && seen_ns < now_ns + ns;  // a tenant wrote it: no difference with it is formed
  }

 private:
  // Whose seat stands at that number of the board.
  struct Place {
    std::uint64_t share = 0;  // 0: nobody's
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

// When all boards of a node are told: again and again while several shares work on one GPU, whoever has turns there.
// Not thread-safe.
class BoardTimes {
 public:
  // Whether they are told now; then saw() follows for each GPU.
  [[nodiscard]] bool begin(std::int64_t now_ns) {
    if (now_ns - told_ns_ < kBoardSoonNs) return false;
    told_ns_ = now_ns;
    due_ns_ = schedule::kNever;
    return true;
  }
  // How many shares that may mark there are on a GPU, how many of them work, and whether the policy is off there.
  void saw(std::uint32_t there, std::uint32_t at_work, bool off) {
    if (at_work > 1) due_ns_ = std::min(due_ns_, told_ns_ + kBoardNs);
    else if (there > 1 && off) due_ns_ = std::min(due_ns_, told_ns_ + kUnrungNs);
  }
  [[nodiscard]] std::int64_t due_ns() const { return due_ns_; }

 private:
  std::int64_t told_ns_ = 0, due_ns_ = schedule::kNever;
};

}  // namespace headgate::node
