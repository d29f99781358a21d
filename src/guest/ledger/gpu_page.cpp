#include "guest/ledger/gpu_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

#include "guest/ledger/check.hpp"
#include "guest/ledger/directory.hpp"

namespace headgate::ledger {
namespace {

constexpr std::int64_t kSliceUs = kGpuSliceNs / kCoverageNs;
constexpr std::int64_t kSwitchUs = 5;  // a pause shorter than a context switch
constexpr std::int64_t kMarginUs = kMapMarginNs / kCoverageNs;
constexpr std::int64_t kReachWords = 512;  // half a ring: no word being replayed is being overwritten

constexpr std::int64_t kOrderNs = 12'000'000;  // a replay of so long finds the order of slices

// The state of a replay, in one word, so that only one of several processes advances it.
struct Slices {
  std::int64_t next_word = 0;  // 46 bits: 100 years
  std::uint32_t holder = kMaxSeats;
  std::int64_t used_us = 0;  // of the slice; at most kSliceUs

  static Slices unpack(std::uint64_t word) {
    return {static_cast<std::int64_t>(word >> 18), static_cast<std::uint32_t>(word >> 11 & 127),
            static_cast<std::int64_t>(word & 2047)};
  }
  std::uint64_t pack() const {
    return static_cast<std::uint64_t>(next_word) << 18 | static_cast<std::uint64_t>(holder) << 11 |
           static_cast<std::uint64_t>(used_us);
  }
};
static_assert(kMaxSeats < 128 && kSliceUs < 2048);

// A set of seats, one bit each.
using Seats = unsigned __int128;
constexpr Seats only(std::uint32_t seat) { return Seats{1} << seat; }
std::uint32_t first_of(Seats seats) {
  const auto low = static_cast<std::uint64_t>(seats), high = static_cast<std::uint64_t>(seats >> 64);
  return static_cast<std::uint32_t>(low != 0 ? __builtin_ctzll(low) : 64 + __builtin_ctzll(high));
}

// A model of the driver's run list: time slices rotate in a circle, and a context that starts to have work is next.
class Circle {
 public:
  explicit Circle(SliceOrder& order) : order_(order) {
    if (order_.count > kMaxSeats) order_.count = 0;
    for (std::uint32_t i = 0; i < order_.count; ++i) there_ |= only(order_.seats[i] % kMaxSeats);
  }
  // Removes contexts without work; puts those that now have some first.
  void keep(Seats working) {
    if (there_ == working) return;
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < order_.count; ++i)
      if ((working & only(order_.seats[i])) != 0) order_.seats[kept++] = order_.seats[i];
    order_.count = kept;
    for (Seats come = working & ~there_; come != 0; come &= come - 1) {
      for (std::uint32_t i = order_.count++; i > 0; --i) order_.seats[i] = order_.seats[i - 1];
      order_.seats[0] = static_cast<std::uint8_t>(first_of(come));
    }
    there_ = working;
  }
  // The seat has the GPU: all others get theirs before its next slice.
  void has(std::uint32_t seat) {
    for (std::uint32_t i = 0; i + 1 < order_.count; ++i)
      if (order_.seats[i] == seat) {
        order_.seats[i] = order_.seats[i + 1];
        order_.seats[i + 1] = static_cast<std::uint8_t>(seat);
      }
  }
  // The seat did not have the GPU after all: it is next.
  void had_not(std::uint32_t seat) {
    for (std::uint32_t i = order_.count; i-- > 1;)
      if (order_.seats[i] == seat) {
        order_.seats[i] = order_.seats[i - 1];
        order_.seats[i - 1] = static_cast<std::uint8_t>(seat);
      }
  }
  // At least one must be waiting.
  std::uint32_t next_of(Seats waiting) const {
    for (std::uint32_t i = 0; i < order_.count; ++i)
      if ((waiting & only(order_.seats[i])) != 0) return order_.seats[i];
    return first_of(waiting);
  }

 private:
  SliceOrder& order_;
  Seats there_ = 0;
};

// The seats that may have had the GPU lately, and their marks in the word being replayed.
struct Table {
  const GpuPage& page;
  Seats present = 0, ours = 0;
  std::uint64_t working[kMaxSeats] = {}, events[kMaxSeats] = {};

  void read(std::int64_t word) {
    for (Seats left = present; left != 0; left &= left - 1) {
      const GpuMarks& marks = page.marks[first_of(left)];
      working[first_of(left)] = marks.working.word(word);
      events[first_of(left)] = marks.events.word(word);
    }
  }

  struct Moment {
    Seats working = 0, eventful = 0;
    std::int64_t length;  // until something changes or another event fires
  };
  Moment at(std::int64_t us) const {
    Moment moment;
    std::uint64_t changes = 0;  // bit 0: in the microsecond after this one
    for (Seats left = present; left != 0; left &= left - 1) {
      const Seats seat = left & -left;
      const std::uint64_t work = working[first_of(left)] >> us, fired = events[first_of(left)] >> us;
      if ((work & 1) != 0) moment.working |= seat;
      if ((fired & 1) != 0) moment.eventful |= seat;
      changes |= (work ^ work >> 1) | fired >> 1;
    }
    changes &= kCoverageMask >> 1 >> us;  // nothing is known past the word's end
    moment.length = changes != 0 ? __builtin_ctzll(changes) + 1 : kCoverageBits - us;
    return moment;
  }

  bool works_at(std::uint32_t seat, std::int64_t at_us) const {
    return (page.marks[seat].working.word(at_us / kCoverageBits) >> at_us % kCoverageBits & 1) != 0;
  }

  struct Sign {
    std::uint32_t seat = kMaxSeats;  // none
    std::int64_t at_us = 0;
  };
  // Returns the first event of one of `seats` in [from_us, to_us).
  Sign first_event(Seats seats, std::int64_t from_us, std::int64_t to_us) const {
    for (std::int64_t at_us = from_us; at_us < to_us; at_us = (at_us / kCoverageBits + 1) * kCoverageBits) {
      const std::int64_t word = at_us / kCoverageBits, skipped = at_us % kCoverageBits;
      Sign sign{.at_us = to_us};
      for (Seats left = seats; left != 0; left &= left - 1) {
        const std::uint64_t fired = page.marks[first_of(left)].events.word(word) >> skipped << skipped;
        if (fired != 0 && word * kCoverageBits + __builtin_ctzll(fired) < sign.at_us)
          sign = {first_of(left), word * kCoverageBits + __builtin_ctzll(fired)};
      }
      if (sign.seat != kMaxSeats) return sign;
    }
    return {};
  }

  // Returns the next holder when a slice ends: the next in the circle. Exception: another context's event within less
  // than a slice shows that it has the GPU while the next one would be in its slice.
  std::uint32_t next_holder(Seats waiting, const Circle& circle, std::int64_t now_us) const {
    const std::uint32_t next = circle.next_of(waiting);
    if ((waiting & (waiting - 1)) == 0) return next;
    const Sign sign = first_event(waiting, now_us, now_us + kSliceUs - kMarginUs);
    if (sign.seat == kMaxSeats || sign.seat == next) return next;
    for (std::int64_t us = now_us; us <= sign.at_us + kMarginUs; us += kMarginUs / 2)
      if (!works_at(next, us)) return next;  // it had finished by then
    return sign.seat;
  }
};

// The seat that ran out of work before its slice ended, and when. If its next start event follows at once, it never
// lost the GPU.
struct Paused {
  std::uint32_t seat = kMaxSeats;
  std::int64_t used_us = 0, at_us = 0;
};

void give_gpu(Slices& slices, Circle& circle, std::uint32_t seat) {
  slices.holder = seat;
  slices.used_us = 0;
  circle.has(seat);
}

// Returns how long other seats than `ours` had the GPU in that word while ours had work, in us.
std::int64_t replay_word(Slices& slices, Paused& paused, Table& table, Circle& circle) {
  const std::int64_t word_us = slices.next_word * kCoverageBits;
  table.read(slices.next_word);
  std::int64_t theirs = 0;
  for (std::int64_t us = 0; us < kCoverageBits;) {
    const auto [working, eventful, length] = table.at(us);
    circle.keep(working | eventful);
    // The last event of work that ended before a GPU switch may appear to come after it.
    const bool late = eventful != 0 && slices.holder < kMaxSeats && slices.used_us < kMarginUs &&
                      (working & only(slices.holder)) != 0 && !table.works_at(first_of(eventful), word_us + us + 1);
    if (eventful != 0 && slices.holder != first_of(eventful) && !late) {
      if (slices.holder < kMaxSeats && slices.used_us < kMarginUs) circle.had_not(slices.holder);
      give_gpu(slices, circle, first_of(eventful));
      if (const std::int64_t pause_us = word_us + us - paused.at_us;
          slices.holder == paused.seat && pause_us <= kSwitchUs && pause_us < kSliceUs - paused.used_us)
        slices.used_us = paused.used_us + pause_us;
    }
    if (slices.holder < kMaxSeats && (working & only(slices.holder)) == 0) {
      paused = {.seat = slices.holder, .used_us = slices.used_us, .at_us = word_us + us};
      slices.holder = kMaxSeats;  // the next holder has a whole slice
    }
    const std::int64_t end = us + length;
    while (us < end && working != 0) {
      const Seats holder = slices.holder < kMaxSeats ? only(slices.holder) : 0;
      if (holder == 0 || slices.used_us == kSliceUs) {
        const Seats others = working & ~holder;
        give_gpu(slices, circle, table.next_holder(others != 0 ? others : working, circle, word_us + us));
      }
      const std::int64_t step = std::min(end - us, kSliceUs - slices.used_us);
      if ((working & table.ours) != 0 && (table.ours & only(slices.holder)) == 0) theirs += step;
      slices.used_us += step;
      us += step;
    }
    us = end;
  }
  ++slices.next_word;
  return theirs;
}

// Compares without subtracting values that other processes may have written.
bool seen_lately(const GpuSeat& place, std::int64_t now_ns) {
  const std::int64_t seen_ns = place.seen_ns.load(std::memory_order_relaxed);
  return seen_ns >= now_ns - kSeatIdleNs && seen_ns <= now_ns + kSeatIdleNs;
}

bool sits(const Seat& seat) {
  return seat.index < kMaxSeats && seat.page->seats[seat.index].owner.load(std::memory_order_relaxed) == seat.owner;
}

bool take_seat(Seat& seat, std::int64_t now_ns) {
  for (std::uint32_t i = 0; i < kMaxSeats; ++i) {
    GpuSeat& place = seat.page->seats[i];
    std::uint64_t owner = place.owner.load(std::memory_order_relaxed);
    const std::int64_t seen_ns = place.seen_ns.load(std::memory_order_relaxed);
    // A time in the future is from before the last reboot.
    if (owner != 0 && seen_ns <= now_ns && seen_ns > now_ns - kSeatStaleNs) continue;
    if (!place.owner.compare_exchange_strong(owner, seat.owner, std::memory_order_relaxed)) continue;
    place.seen_ns.store(now_ns, std::memory_order_relaxed);
    place.share.store(seat.share, std::memory_order_relaxed);
    see_seat(*seat.page, i);
    seat.index = i;
    return true;
  }
  seat.index = kMaxSeats;
  return false;
}

PageFault map_gpu_page(int directory, const char* uuid, GpuPage*& page) {
  Descriptor file;
  std::size_t bytes = 0;
  if (const PageFault bad = open_page_file(directory, uuid, true, file, bytes)) return bad;
  if (bytes != sizeof(GpuPage)) return fault(PageError::wrong_size, uuid, bytes, sizeof(GpuPage));
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return system_fault(uuid, errno);
  if (const PageFault bad = check_gpu_page(*static_cast<GpuPage*>(at), uuid)) {
    ::munmap(at, bytes);
    return bad;
  }
  page = static_cast<GpuPage*>(at);
  return {};
}

// Written to a scratch file and linked: no reader sees half a page, and only one of two makers names it.
PageFault make_gpu_page(int directory, const char* uuid) {
  sweep_scratch(directory);
  char scratch[48];
  scratch_name(kBeingMade, scratch);
  Descriptor file;
  PageFault bad = make_page_file(directory, scratch, sizeof(GpuPage), file);
  if (!bad) {
    PageHeader header{kGpuMagic, kGpuPageVersion, sizeof(GpuPage)};
    char name[kUuidBytes] = {};
    std::memcpy(name, uuid, std::strlen(uuid) + 1);
    const bool written = ::pwrite(file.get(), &header, sizeof header, 0) == sizeof header &&
                         ::pwrite(file.get(), name, sizeof name, offsetof(GpuPage, uuid)) == sizeof name;
    if (!written || (::linkat(directory, scratch, directory, uuid, 0) != 0 && errno != EEXIST))
      bad = system_fault(uuid, errno);
  }
  ::unlinkat(directory, scratch, 0);
  return bad;
}

}  // namespace

void name_gpu_page(GpuPage& page, const char* uuid) {
  page.header = {kGpuMagic, kGpuPageVersion, sizeof(GpuPage)};
  std::strncpy(page.uuid, uuid, kUuidBytes - 1);
}

PageFault check_gpu_page(const GpuPage& page, const char* uuid) {
  if (const PageFault bad = check_header(page.header, kGpuMagic, kGpuPageVersion, "gpu page")) return bad;
  if (std::strncmp(page.uuid, uuid, kUuidBytes) != 0) return fault(PageError::wrong_name, uuid);
  return {};
}

PageFault open_gpu_page(const char* base, const char* uuid, GpuPage*& page) {
  // The UUID becomes a file name.
  if (!is_share_name(uuid) || std::strlen(uuid) >= kUuidBytes) return fault(PageError::bad_uuid, uuid);
  Descriptor gpus;
  if (const PageFault bad = open_gpus(base, gpus)) return bad;
  PageFault bad = map_gpu_page(gpus.get(), uuid, page);
  if (bad.error != PageError::not_found) return bad;
  bad = make_gpu_page(gpus.get(), uuid);
  return bad ? bad : map_gpu_page(gpus.get(), uuid, page);
}

std::uint32_t seats_of(const GpuPage& page) {
  return std::min(page.seats_seen.load(std::memory_order_acquire), kMaxSeats);
}

void see_seat(GpuPage& page, std::uint32_t seat) {
  std::uint32_t seen = page.seats_seen.load(std::memory_order_relaxed);
  while (seen <= seat && !page.seats_seen.compare_exchange_weak(seen, seat + 1, std::memory_order_release)) {
  }
}

void mark_seat(Seat& seat, const Work& work, std::int64_t now_ns) {
  if (!sits(seat) && !take_seat(seat, now_ns)) return;
  GpuMarks& marks = seat.page->marks[seat.index];
  marks.working.mark(work.from_ns, work.to_ns);
  if (work.start_event_ns != 0) marks.events.mark(work.start_event_ns, work.start_event_ns + kCoverageNs);
  if (work.end_event) marks.events.mark(work.to_ns - kCoverageNs, work.to_ns);
  seat.page->seats[seat.index].seen_ns.store(now_ns, std::memory_order_relaxed);
  seat.page->seen_ns.store(now_ns, std::memory_order_relaxed);
}

void leave_seat(Seat& seat) {
  if (seat.page == nullptr || !sits(seat)) return;
  std::uint64_t owner = seat.owner;
  seat.page->seats[seat.index].owner.compare_exchange_strong(owner, 0, std::memory_order_relaxed);
  seat.index = kMaxSeats;
}

bool others_at_work(const Seat& seat, std::int64_t now_ns) {
  if (seat.page == nullptr || seat.board != nullptr) return false;
  for (std::uint32_t i = 0; i < seats_of(*seat.page); ++i) {
    const GpuSeat& place = seat.page->seats[i];
    if (place.owner.load(std::memory_order_relaxed) == 0) continue;
    if (place.share.load(std::memory_order_relaxed) == seat.share) continue;
    if (seen_lately(place, now_ns)) return true;
  }
  return false;
}

std::int64_t neighbours_ns(Seat& seat, ComputeAccount& account, std::int64_t now_ns, bool at_once) {
  const GpuPage& board = seat.board != nullptr ? *seat.board : *seat.page;
  if (seat.board != nullptr) now_ns = std::min(now_ns, board.told_ns.load(std::memory_order_acquire));
  const std::int64_t end_word = (now_ns - kReplayLagNs) / kCoverageWordNs;
  std::uint64_t packed = account.slices.load(std::memory_order_relaxed);
  Slices slices = Slices::unpack(packed);
  const std::int64_t behind = end_word - slices.next_word;
  if (behind <= 0 && behind > -kReachWords) return 0;
  const bool mine = packed == seat.left;
  if (!mine && !at_once && behind > 0 && behind < take_over_ns(seat) / kCoverageWordNs) return 0;
  Table table{.page = board};
  for (std::uint32_t i = 0; i < seats_of(board); ++i) {
    const GpuSeat& place = board.seats[i];
    if (!seen_lately(place, now_ns)) continue;
    table.present |= only(i);
    if (place.share.load(std::memory_order_relaxed) == seat.share) table.ours |= only(i);
  }
  if (table.present == table.ours) return 0;
  Paused paused;
  Circle circle(seat.order);
  // After a time alone or asleep, start again.
  if (behind > kReachWords || behind <= 0) {
    slices = {.next_word = end_word - kReachWords};
  } else if (!mine) {
    // Recover the order that another process knew by replaying the time before.
    Slices before{.next_word = end_word - kReachWords};
    while (before.next_word < slices.next_word) replay_word(before, paused, table, circle);
    slices = before;
  }
  std::int64_t theirs = 0;
  while (slices.next_word < end_word) theirs += replay_word(slices, paused, table, circle);
  seat.left = slices.pack();
  // Another process of the share was faster and gives back what it found.
  if (!account.slices.compare_exchange_strong(packed, seat.left, std::memory_order_relaxed)) return 0;
  return theirs * kCoverageNs;
}

HeldTime held_time(const ComputeAccount& account, std::int64_t now_ns) {
  constexpr int kTries = 4;                          // the figures may move between two loads
  constexpr std::uint64_t kMostHeldNs = 1ull << 60;  // 36 years
  const std::int64_t end_word = (now_ns + kMapMarginNs) / kCoverageWordNs + 1;
  HeldTime time;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t slices = account.slices.load(std::memory_order_acquire);
    const std::uint64_t held_ns = account.held_ns.load(std::memory_order_acquire);
    std::int64_t word = Slices::unpack(slices).next_word;
    // No other share had work for long, so there was no replay.
    if (word > end_word || word < end_word - 2 * kReachWords)
      word = (now_ns - kReplayLagNs - kBoardLateNs) / kCoverageWordNs;
    time.until_ns = word * kCoverageWordNs;
    const auto known_ns = static_cast<std::int64_t>(std::min<std::uint64_t>(held_ns, kMostHeldNs));
    time.held_ns = std::max<std::int64_t>(0, known_ns - account.coverage.marked_ns(word, end_word));
    if (account.slices.load(std::memory_order_acquire) == slices &&
        account.held_ns.load(std::memory_order_acquire) == held_ns)
      break;
  }
  return time;
}

std::int64_t others_on_board_ns(const Seat& seat, SliceReplay& replay, std::int64_t from_ns, std::int64_t to_ns) {
  const GpuPage& board = *seat.board;
  Table table{.page = board};
  for (std::uint32_t i = 0; i < seats_of(board); ++i) {
    if (!seen_lately(board.seats[i], to_ns)) continue;
    table.present |= only(i);
    if (board.seats[i].owner.load(std::memory_order_relaxed) == seat.owner) table.ours |= only(i);
  }
  if (table.ours == 0) return -1;
  if (table.present == table.ours) return 0;
  const std::int64_t end_word = to_ns / kCoverageWordNs;
  std::int64_t from_word = from_ns / kCoverageWordNs;
  Slices slices = Slices::unpack(replay.slices);
  const bool goes_on = slices.next_word == from_word;
  if (!goes_on) {
    replay.order.count = 0;
    slices = {.next_word = (from_ns - kOrderNs) / kCoverageWordNs};
    // The context has the GPU when its work begins: what others had in that word was before.
    if (from_ns % kCoverageWordNs != 0) ++from_word;
  }
  Circle circle(replay.order);
  Paused paused;
  while (slices.next_word < from_word) replay_word(slices, paused, table, circle);
  std::int64_t theirs = 0;
  while (slices.next_word < end_word) theirs += replay_word(slices, paused, table, circle);
  replay.slices = slices.pack();
  return theirs * kCoverageNs;
}

}  // namespace headgate::ledger
