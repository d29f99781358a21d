#include "node/gpu_board.hpp"

namespace headgate::node {
namespace {

constexpr std::uint32_t kNone = ledger::kMaxSeats;

}  // namespace

// Returns the share's places, indexed by the seat's number on the share's own page.
std::array<std::uint32_t, ledger::kMaxSeats> GpuBoard::places_of(std::uint64_t share) const {
  std::array<std::uint32_t, ledger::kMaxSeats> of_seat;
  of_seat.fill(kNone);
  for (std::uint32_t i = 0; i < places_.size(); ++i)
    if (places_[i].share == share) of_seat[places_[i].seat] = i;
  return of_seat;
}

// Returns a free place, or else one of the share that has most, unless that is this one. So the others have room for
// theirs, however many contexts a share claims to have.
std::uint32_t GpuBoard::make_room(std::uint64_t share) const {
  std::uint32_t most = kNone;
  std::ptrdiff_t places = std::ranges::count(places_, share, &Place::share) + 1;
  for (std::uint32_t i = 0; i < places_.size(); ++i) {
    if (places_[i].share == 0) return i;
    const std::ptrdiff_t theirs = std::ranges::count(places_, places_[i].share, &Place::share);
    if (theirs > places) most = i, places = theirs;
  }
  return most;
}

// The marks stay: they are true of the time before.
void GpuBoard::leave(std::uint32_t place) {
  places_[place] = {};
  page_.seats[place].owner.store(0, std::memory_order_relaxed);
}

// Clears the marks of the place's former owner, which are not this one's work.
void GpuBoard::enter(std::uint32_t place, const Place& who) {
  places_[place] = who;
  page_.seats[place].share.store(who.share, std::memory_order_relaxed);
  page_.seats[place].owner.store(who.owner, std::memory_order_relaxed);
  ledger::see_seat(page_, place);
  page_.marks[place].working.clear();
  page_.marks[place].events.clear();
}

int GpuBoard::bring(const ledger::GpuPage& from, std::uint64_t share, std::int64_t now_ns, int newcomers) {
  const std::int64_t reach_ns = std::clamp<std::int64_t>(now_ns - told_ns() + kMarkedLateNs, 0, kBoardReachNs);
  const std::int64_t end = now_ns / ledger::kCoverageWordNs + 1;
  const auto places = places_of(share);
  const std::uint32_t seats = ledger::seats_of(from);
  int entered = 0;
  for (std::uint32_t seat = 0; seat < ledger::kMaxSeats; ++seat) {
    if (seat >= seats && places[seat] == kNone) continue;
    std::int64_t first = std::max<std::int64_t>(0, now_ns - reach_ns) / ledger::kCoverageWordNs;
    const std::uint64_t owner = from.seats[seat].owner.load(std::memory_order_relaxed);
    const std::int64_t seen_ns = std::min(now_ns, from.seats[seat].seen_ns.load(std::memory_order_relaxed));
    const bool there = owner != 0 && seen_ns > now_ns - ledger::kSeatIdleNs;
    std::uint32_t place = places[seat];
    // Another share got it since: this one had too many.
    if (place != kNone && (places_[place].share != share || places_[place].seat != seat)) place = kNone;
    if (place != kNone && (!there || places_[place].owner != owner)) leave(place), place = kNone;
    if (!there) continue;
    if (place == kNone) {
      if (entered >= newcomers || (place = make_room(share)) == kNone) continue;
      ++entered;
      enter(place, {.share = share, .owner = owner, .seat = seat});
      first = std::max<std::int64_t>(0, now_ns - kBoardReachNs) / ledger::kCoverageWordNs;
    }
    // It has no new marks, and its limiter has long finished those that were incomplete at the last copy.
    else if (page_.seats[place].seen_ns.load(std::memory_order_relaxed) == seen_ns && seen_ns < told_ns() - kMarkingNs)
      continue;
    page_.marks[place].working.copy(from.marks[seat].working, first, end);
    page_.marks[place].events.copy(from.marks[seat].events, first, end);
    page_.seats[place].seen_ns.store(seen_ns, std::memory_order_relaxed);
  }
  return entered;
}

void GpuBoard::forget(std::uint64_t share) {
  for (std::uint32_t i = 0; i < places_.size(); ++i)
    if (places_[i].share == share) leave(i);
}

ShareMarks::ShareMarks(const ledger::PolicyPage& policy)
    : memory_("headgate-marks", policy.device_count * sizeof(ledger::GpuPage), SealedMemory::Theirs::to_write) {
  if (!memory_) return;
  for (std::uint32_t d = 0; d < policy.device_count; ++d)
    ledger::name_gpu_page(memory_.as<ledger::GpuPage>()[d], policy.devices[d].uuid);
}

GpuBoards::GpuBoards(const std::vector<std::string>& uuids) {
  for (const std::string& uuid : uuids) {
    Board& made = boards_.emplace_back();
    made.memory = SealedMemory("headgate-board", sizeof(ledger::GpuPage), SealedMemory::Theirs::to_read);
    if (!made.memory) continue;
    auto& page = *made.memory.as<ledger::GpuPage>();
    ledger::name_gpu_page(page, uuid.c_str());
    made.board = std::make_unique<GpuBoard>(page);
  }
}

int GpuBoards::descriptor(std::uint32_t gpu) const {
  return gpu < boards_.size() ? boards_[gpu].memory.descriptor() : -1;
}

}  // namespace headgate::node
