// When each context on a GPU had work, across the shares of a node, so that concurrent shares are not charged for each
// other's time slices. One seat per context.
//
//   without a daemon   BASE/gpus/UUID, one page per GPU: all of one user's contexts write and read it.
//   with headgated     each share writes its own pages, which the daemon hands out and copies to a board: one page per
//                      GPU that shares can read and only the daemon writes (node/gpu_board.hpp).
//
// A GPU runs one context at a time, so the time between two of a context's events includes the others' slices. No call
// tells which context had the GPU, but two facts do: an event only fires while its context has the GPU, and a context
// loses it when its work ends or its slice ends while another has work. Each share replays this over the marks of all
// seats, late enough for them to be present, and gives back what it charged for time that another share had.
//
// The result is approximate, and `headgate run` says so: the slice is the driver's default, marks may come too late, an
// unmetered process has no seat, and without a daemon any process of the user can write here. False marks cannot raise
// what another share is charged, or lower it by more than its charge in the time examined.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::ledger {

inline constexpr std::uint64_t kGpuMagic = 0x4847'2067'7075'2020;  // "HG gpu  "
inline constexpr std::uint32_t kGpuPageVersion = 4;      // not kVersion: a page serves shares of several versions
inline constexpr std::uint32_t kMaxSeats = 127;          // contexts on a GPU at most that are told apart
inline constexpr std::int64_t kGpuSliceNs = 2'000'000;   // the driver's default time slice
inline constexpr std::int64_t kReplayLagNs = 8'000'000;  // by then nearly every mark is there
inline constexpr std::int64_t kBoardLateNs =
    10'000'000;  // what a daemon tells is so old at most, and as much comes at once
inline constexpr std::int64_t kTakeOverNs = 6'000'000;  // a replay that has not gone on for so long may be another's
inline constexpr std::int64_t kSeatIdleNs = 1'000'000'000;    // a seat without marks for so long is no neighbour
inline constexpr std::int64_t kSeatStaleNs = 10'000'000'000;  // and after this it may be taken by another

struct alignas(64) GpuSeat {
  std::atomic<std::uint64_t> owner;   // random, of one context; 0: free
  std::atomic<std::uint64_t> share;   // the generation of the share's policy page
  std::atomic<std::int64_t> seen_ns;  // host time of its last mark
  std::uint8_t reserved[40];
};
struct GpuMarks {
  Coverage<1024> working;  // when the context had work for the GPU: the last 49 ms
  Coverage<1024> events;   // when one of its events fired: it had the GPU
};

struct alignas(64) GpuPage {
  PageHeader header;
  char uuid[kUuidBytes];
  std::atomic<std::int64_t> seen_ns;      // host time of the last mark on any seat
  std::atomic<std::int64_t> told_ns;      // in the daemon's page: all marks before this time are here
  std::atomic<std::uint32_t> seats_seen;  // seats from this number on were never taken
  // Memory of a context on this GPU with this driver (cuDriverGetVersion), as last measured on the node; 0: not
  // measured. Only in a page without a daemon.
  std::atomic<std::uint32_t> context_driver;
  std::atomic<std::uint64_t> context_bytes;
  // Which process creates a context of unknown size, and until when others wait for that; 0: none
  // (limiter/memory/context_turn.cpp).
  std::atomic<std::uint64_t> context_turn;
  std::uint8_t reserved[24];
  GpuSeat seats[kMaxSeats];
  GpuMarks marks[kMaxSeats];  // indexed by seat
};
static_assert(sizeof(GpuSeat) == 64 && offsetof(GpuPage, seats) == 128);
static_assert(sizeof(GpuPage) == 128 + kMaxSeats * (64 + 2 * 1024 * 8));

// Maps the GPU's page, creating it if missing. On error `page` stays null. The mapping lives as long as the process.
PageFault open_gpu_page(const char* base, const char* uuid, GpuPage*& page);

// Fills the header of an empty page of a GPU.
void name_gpu_page(GpuPage& page, const char* uuid);
// Returns wrong_magic, pages_newer, pages_older or wrong_name if it is not a usable page of that GPU.
PageFault check_gpu_page(const GpuPage& page, const char* uuid);

// The circular order in which contexts get time slices, as far as a replay has seen. A context that starts to have work
// goes next.
struct SliceOrder {
  std::uint8_t seats[kMaxSeats];
  std::uint32_t count = 0;
};

// One context's seat. Not thread-safe: one settler at a time.
struct Seat {
  GpuPage* page = nullptr;         // where this context writes its marks
  const GpuPage* board = nullptr;  // where all marks are read; null: `page` has them all
  std::uint64_t owner = 0;         // random, not 0
  std::uint64_t share = 0;
  std::uint32_t index = 0;  // the seat, if that seat's owner matches; kMaxSeats: none was free
  // State after this context's last replay; another process of the share may have advanced since.
  SliceOrder order{};
  std::uint64_t left = 0;
};

// A span of host time in which a context had work for the GPU, and the events at its ends.
struct Work {
  std::int64_t from_ns, to_ns;
  // 0: none. Earlier than from_ns if the work came later: the GPU may have gone to another context in between.
  std::int64_t start_event_ns = 0;
  bool end_event = false;  // at to_ns
};

// Only seats up to the last that was ever taken are read.
std::uint32_t seats_of(const GpuPage& page);
void see_seat(GpuPage& page, std::uint32_t seat);

// Marks the span. Takes a seat if the context has none. If all are taken the span stays unmarked, and neighbours are
// charged for its slices.
void mark_seat(Seat& seat, const Work& work, std::int64_t now_ns);
void leave_seat(Seat& seat);

// Returns whether contexts of other shares have marked work within the last kSeatIdleNs. False without a page, and if
// they mark on other pages.
bool others_at_work(const Seat& seat, std::int64_t now_ns);

// Returns how long after a moment a replay reaches it.
inline std::int64_t replay_lag_ns(const Seat& seat) {
  return kReplayLagNs + (seat.board != nullptr ? kBoardLateNs : 0);
}

// Marks that a board brings at once are no pause.
inline std::int64_t take_over_ns(const Seat& seat) { return kTakeOverNs + (seat.board != nullptr ? kBoardLateNs : 0); }

// Returns how much of the share's charge since the last look was other shares' work: ns, at least 0. Looks at marks up
// to kReplayLagNs ago or, with a board, up to that long before its told_ns. Any process of the share may ask; each
// microsecond is answered to one of them. The process that goes on knows in what order slices are given. So another
// takes over only if it has not gone on for take_over_ns, or with `at_once`.
std::int64_t neighbours_ns(Seat& seat, ComputeAccount& account, std::int64_t now_ns, bool at_once = false);

// What a share held of a GPU until a moment, in ns: by then it is known which of it others had.
struct HeldTime {
  std::int64_t held_ns = 0;
  std::int64_t until_ns = 0;  // host time, at most 49 ms before the reading
};

// Returns that, as far as the share's last replay has got. What was charged for the time since is left out: a part of
// it may be given back, and work that still runs is not charged yet. Any process of the share can write the account.
HeldTime held_time(const ComputeAccount& account, std::int64_t now_ns);

// Where a replay has got to, so that the next one goes on from there.
struct SliceReplay {
  std::uint64_t slices = 0;
  SliceOrder order{};
};

// Returns how much of [from_ns, to_ns), in which the seat's context had work, other contexts had, of its share too. The
// board must have all marks of that time: they reach back 49 ms. If `replay` did not end at from_ns, 12 ms before that
// are replayed too. -1: the board does not have the seat.
std::int64_t others_on_board_ns(const Seat& seat, SliceReplay& replay, std::int64_t from_ns, std::int64_t to_ns);

}  // namespace headgate::ledger
