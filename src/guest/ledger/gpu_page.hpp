// One GPU among the shares of one node: who had work on it when, so that shares that run at once are not each charged
// for the others' time slices. One seat a context.
//
//   without a daemon   BASE/gpus/UUID, one page a GPU: all of one user's contexts write and read it.
//   with headgated     each share has pages of its own to write, which the daemon hands out; what stands there it
//   copies to a
//                      page of the GPU that the shares can read and nobody but the daemon writes (node/gpu_board.hpp).
//
// A GPU runs one context at a time; what a context measures between two events of its own includes the slices of the
// others. Which context had a given microsecond nobody says, but it follows: an event only fires while its context has
// the GPU, and a context loses it when its work ends or when its slice is used up and another has work. Each share
// replays that over the marks of all seats, late enough for them to be there, and gives back what it charged for time
// that another share had.
//
// The result is approximate, and `headgate run` says so: the slice is the driver's default, a seat's marks may come too
// late, a process that is not metered has no seat, and without a daemon any process of the same user can write here.
// What false marks cannot do is raise what another share is charged, or lower it by more than it was charged in the
// time that is looked at.
#pragma once

#include <cstdint>

#include "guest/ledger/layout.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::ledger {

inline constexpr std::uint64_t kGpuMagic = 0x4847'2067'7075'2020;  // "HG gpu  "
inline constexpr std::uint32_t kGpuPageVersion = 3;  // of its own: one page serves shares of several versions
inline constexpr std::uint32_t kMaxSeats = 64;
inline constexpr std::int64_t kGpuSliceNs = 2'000'000;   // the driver's default time slice
inline constexpr std::int64_t kReplayLagNs = 8'000'000;  // by then nearly every mark is there
inline constexpr std::int64_t kBoardLateNs =
    10'000'000;  // what a daemon tells is so old at most, and as much comes at once
inline constexpr std::int64_t kTakeOverNs = 6'000'000;  // a replay that has not gone on for so long may be another's
inline constexpr std::int64_t kSeatIdleNs = 1'000'000'000;    // a seat without marks for so long is nobody's neighbour
inline constexpr std::int64_t kSeatStaleNs = 10'000'000'000;  // and after this it may be taken by another

struct alignas(64) GpuSeat {
  std::atomic<std::uint64_t> owner;   // random, of one context; 0: free
  std::atomic<std::uint64_t> share;   // the generation of its policy page
  std::atomic<std::int64_t> seen_ns;  // host time of its last mark
  std::uint8_t reserved[40];
};
struct GpuMarks {
  Coverage<1024> working;  // when it had work for the GPU: the last 49 ms
  Coverage<1024> events;   // when an event of its own fired: it had the GPU
};

struct alignas(64) GpuPage {
  PageHeader header;
  char uuid[kUuidBytes];
  std::atomic<std::int64_t> seen_ns;  // host time of the last mark on any seat
  std::atomic<std::int64_t> told_ns;  // of a page that the daemon writes: all that was marked before then stands here
  std::atomic<std::uint32_t> seats_seen;  // seats from that number on were never taken
  // What a context takes of this GPU under that driver (cuDriverGetVersion), as the node's last one was measured; 0:
  // none was. Of a page without a daemon.
  std::atomic<std::uint32_t> context_driver;
  std::atomic<std::uint64_t> context_bytes;
  std::uint8_t reserved[32];
  GpuSeat seats[kMaxSeats];
  GpuMarks marks[kMaxSeats];  // of the seat of that number
};
static_assert(sizeof(GpuSeat) == 64 && offsetof(GpuPage, seats) == 128);
static_assert(sizeof(GpuPage) == 128 + kMaxSeats * (64 + 2 * 1024 * 8));

// Maps the GPU's page, made where missing. `page` stays null on error. The mapping lives as long as the process.
PageFault open_gpu_page(const char* base, const char* uuid, GpuPage*& page);

// Fills the head of an empty page of a GPU.
void name_gpu_page(GpuPage& page, const char* uuid);
// wrong_magic, pages_newer, pages_older or wrong_name where it is no page of that GPU that can be used.
PageFault check_gpu_page(const GpuPage& page, const char* uuid);

// In what order the contexts of a GPU have its slices, as far as a replay has seen: a circle. Who comes to have work
// goes next.
struct SliceOrder {
  std::uint8_t seats[kMaxSeats];
  std::uint32_t count = 0;
};

// One context's place. Not thread-safe: of one settler at a time.
struct Seat {
  GpuPage* page = nullptr;         // where it marks
  const GpuPage* board = nullptr;  // where everybody's marks are read; null: `page` is everybody's
  std::uint64_t owner = 0;         // random, not 0
  std::uint64_t share = 0;
  std::uint32_t index = 0;  // where it sits if that seat says so; kMaxSeats: none was free
  // As this context's last replay left things; another process of the share may have gone on since.
  SliceOrder order{};
  std::uint64_t left = 0;
};

// A stretch of host time in which a context had work for the GPU, and the events that fired round it.
struct Work {
  std::int64_t from_ns, to_ns;
  // 0: none. Before from_ns where the work came after it: the GPU may have gone to another meanwhile.
  std::int64_t start_event_ns = 0;
  bool end_event = false;  // at to_ns
};

// What is read of a page are the seats up to the last that was ever taken.
std::uint32_t seats_of(const GpuPage& page);
void see_seat(GpuPage& page, std::uint32_t seat);

// Marks such a stretch. Takes a seat where the context has none; where all are taken it stays unmarked, and its
// neighbours are charged for its slices.
void mark_seat(Seat& seat, const Work& work, std::int64_t now_ns);
void leave_seat(Seat& seat);

// Whether contexts of other shares have marked work within the last kSeatIdleNs. False without a page, and where they
// mark elsewhere.
bool others_at_work(const Seat& seat, std::int64_t now_ns);

// After which a replay reaches a moment.
inline std::int64_t replay_lag_ns(const Seat& seat) {
  return kReplayLagNs + (seat.board != nullptr ? kBoardLateNs : 0);
}

// Marks that a board brings at once are no pause.
inline std::int64_t take_over_ns(const Seat& seat) { return kTakeOverNs + (seat.board != nullptr ? kBoardLateNs : 0); }

// How much of what the share was charged for and nobody has looked at yet other shares had: ns, at least 0. It reaches
// to kReplayLagNs ago, or where a daemon tells the marks to that long before its board's told_ns. Any process of the
// share may ask; each microsecond is answered to one of them. Who goes on knows in what order slices are given; so
// another goes on in its place only where it has not for take_over_ns, or with `at_once`.
std::int64_t neighbours_ns(Seat& seat, ComputeAccount& account, std::int64_t now_ns, bool at_once = false);

}  // namespace headgate::ledger
