#include "tenancy/processes.hpp"

#include <algorithm>
#include <tuple>

#include "guest/ledger/clock.hpp"

namespace headgate::tenancy {
namespace {

bool is_taken(const ledger::SlotView& seat) {
  return seat.kind == ledger::SlotKind::live || seat.kind == ledger::SlotKind::claiming;
}
bool same(const ledger::Identity& a, const ledger::Identity& b) {
  return a.pid == b.pid && a.pidns_inode == b.pidns_inode && a.start_time == b.start_time;
}

// The rest of the page was never touched, and reading it would make it the daemon's memory.
std::uint32_t slots_of(const ledger::UsagePage& usage) {
  return std::min(usage.slots_seen.load(std::memory_order_acquire), ledger::kMaxSlots);
}

// Finds slots by the identity in them, not by what the socket said: a process may die between claim and report.
void give_back(ledger::UsagePage& usage, const ledger::Identity& seat, ledger::Remains remains) {
  for (std::uint32_t slot = 0, end = slots_of(usage); slot < end; ++slot) {
    const ledger::SlotView view = ledger::view(usage, slot);
    if (is_taken(view) && same(view.identity, seat) && ledger::mark_dead(usage, {slot, view.generation}))
      ledger::reap(usage, slot, remains);
  }
}

// How often a process that does not have the page mapped may be named, and how many such claims there may be in all.
constexpr std::uint32_t kTimesFalse = 3;
constexpr std::size_t kMaxFalseClaims = 2 * ledger::kMaxSlots;

std::uint32_t give_back_all(ledger::UsagePage& usage, const std::vector<ledger::SlotRef>& slots,
                            ledger::Remains remains) {
  std::uint32_t count = 0;
  for (const ledger::SlotRef& slot : slots) {
    if (!ledger::mark_dead(usage, slot)) continue;
    ledger::reap(usage, slot.slot, remains);
    ++count;
  }
  return count;
}

// Returns whether a process holds several slots at one time; ledger::claim() frees the former one first. Each slot was
// seen taken before any is checked again here, so those still taken were so at one time. If an identity is incomplete,
// several processes may have the same one.
bool are_held_together(const ledger::UsagePage& usage, const ledger::Identity& name,
                       const std::vector<ledger::SlotRef>& slots) {
  if (slots.size() < 2 || name.pidns_inode == 0 || name.start_time == 0) return false;
  return std::ranges::count_if(slots, [&](const ledger::SlotRef& slot) {
           const ledger::SlotView now = ledger::view(usage, slot.slot);
           return is_taken(now) && now.generation == slot.generation && same(now.identity, name);
         }) > 1;
}

}  // namespace

Processes::Processes(boost::asio::any_io_executor executor, Shares& shares, std::string proc, Events events,
                     ledger::Remains remains)
    : executor_(std::move(executor)),
      shares_(shares),
      proc_(std::move(proc)),
      events_(std::move(events)),
      remains_(remains) {}

Result<void> Processes::enter(TenantProcess process, UniqueFd pidfd) {
  boost::asio::posix::stream_descriptor watched(executor_);
  boost::system::error_code error;
  watched.assign(pidfd.get(), error);
  if (error)
    return fail(ErrorCode::failed,
                "process " + std::to_string(process.process.pid) + " cannot be watched: " + error.message());
  (void)pidfd.release();
  const Key key{process.share, process.process.pid};
  bool again = false;
  // A process that registers again for another doorbell may not report its seat, but still has it.
  if (const auto found = entries_.find(key); found != entries_.end()) {
    const TenantProcess& former = found->second->tenant;
    again = former.process.start_time == process.process.start_time;
    if (!process.slot && former.slot && same(former.seat, process.seat) && sits(key.first, key.second, *former.slot)) {
      process.slot = former.slot;
      process.adopted = former.adopted;
    }
    if (again) process.admitted = former.admitted;
  }
  const std::uint64_t program = identity::program_mark(proc_, process.process.pid);
  auto entry = std::make_unique<Entry>(std::move(process), std::move(watched), ++last_serial_, program);
  const TenantProcess& tenant = entry->tenant;
  entries_[key] = std::move(entry);
  watch(key, last_serial_);
  if (!again && events_.joined) events_.joined(tenant);
  if (tenant.adopted) admit(key);
  return {};
}

void Processes::admit(const Key& key) {
  TenantProcess& tenant = entries_.at(key)->tenant;
  if (!std::exchange(tenant.admitted, true) && events_.admitted) events_.admitted(tenant);
}

bool Processes::has_seat(const std::string& share, std::uint32_t pid) const {
  const auto found = entries_.find({share, pid});
  return found != entries_.end() && found->second->tenant.slot && sits(share, pid, *found->second->tenant.slot);
}

bool Processes::sits(const std::string& share, std::uint32_t pid, ledger::SlotRef slot) const {
  const auto found = entries_.find({share, pid});
  const LiveShare* live = shares_.find(share);
  if (found == entries_.end() || live == nullptr || live->pages == nullptr) return false;
  const ledger::SlotView view = ledger::view(live->pages->usage(), slot.slot);
  return view.kind == ledger::SlotKind::live && view.generation == slot.generation &&
         same(view.identity, found->second->tenant.seat);
}

bool Processes::seat(const std::string& share, std::uint32_t pid, ledger::SlotRef slot) {
  if (!sits(share, pid, slot)) return false;
  entries_.at({share, pid})->tenant.slot = slot;
  admit({share, pid});
  return true;
}

// The handler finds its entry by serial: the pid may have been reused, or the process may have entered again.
void Processes::watch(const Key& key, std::uint64_t serial) {
  entries_.at(key)->pidfd.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                     [this, key, serial](const boost::system::error_code& error) {
                                       if (!error) ended(key, serial);  // else we closed it; `this` may be gone
                                     });
}

void Processes::ended(const Key& key, std::uint64_t serial) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second->serial != serial) return;
  if (!identity::has_ended(found->second->pidfd.native_handle())) return watch(key, serial);
  const std::unique_ptr<Entry> entry = std::move(found->second);
  entries_.erase(found);
  ended_.emplace_back(key.second, entry->tenant.process.start_time);
  if (ended_.size() > kEndedKept) ended_.pop_front();
  LiveShare* live = shares_.find(key.first);
  if (live != nullptr && live->pages != nullptr) give_back(live->pages->usage(), entry->tenant.seat, remains_);
  if (events_.left) events_.left(entry->tenant);
}

bool Processes::has_ended(std::uint32_t pid, std::uint32_t start_time) const {
  const auto is_this = [&](std::uint32_t of) { return start_time == 0 || start_time == of; };
  if (std::ranges::any_of(ended_, [&](const auto& each) { return each.first == pid && is_this(each.second); }))
    return true;
  // The loop may not have been told yet.
  return std::ranges::any_of(entries_, [&](const auto& each) {
    return each.first.second == pid && is_this(each.second->tenant.process.start_time) &&
           identity::has_ended(each.second->pidfd.native_handle());
  });
}

bool Processes::known(const std::string& share, const ledger::Identity& seat) const {
  for (auto at = entries_.lower_bound({share, 0}); at != entries_.end() && at->first.first == share; ++at) {
    if (same(at->second->tenant.seat, seat)) return true;
  }
  return false;
}

bool Processes::ByName::operator()(const ledger::Identity& a, const ledger::Identity& b) const {
  return std::tie(a.pid, a.pidns_inode, a.start_time) < std::tie(b.pid, b.pidns_inode, b.start_time);
}

Processes::Claims Processes::claims_of(const std::string& share, const ledger::UsagePage& usage) const {
  Claims claims;
  for (std::uint32_t slot = 0, end = slots_of(usage); slot < end; ++slot) {
    const ledger::SlotView view = ledger::view(usage, slot);
    if (is_taken(view) && !known(share, view.identity)) claims[view.identity].push_back({slot, view.generation});
  }
  return claims;
}

void Processes::adopt_process(const std::string& share, const identity::Process& process, const ledger::Identity& seat,
                              ledger::SlotRef slot) {
  auto pidfd = identity::pidfd_of(process, proc_);
  if (!pidfd) return;  // it has just ended: the next scan finds it gone
  TenantProcess tenant{
      .share = share, .process = process, .uid = process.uid, .where = {}, .seat = seat, .slot = slot, .adopted = true};
  if (const auto cgroups = identity::read_cgroups(proc_, process.pid)) tenant.where = identity::identify(*cgroups);
  (void)enter(std::move(tenant), std::move(*pidfd));  // if it cannot be watched, its claim stays and is checked again
}

// Counts slots in the name of no process. A killed program leaves its slot behind once: the dead claim nothing.
void Processes::count_nobody(const std::string& share, LiveShare& live, const ledger::Identity& name,
                             std::size_t slots) {
  if (slots == 0) return;
  Nobodys& nobodys = doubts_[share].nobodys;
  nobodys.slots += slots;
  if (nobodys.slots > kNobodysOfAMinute)
    live.accusation =
        "has had more than " + std::to_string(kNobodysOfAMinute) + " slots in a minute in names of no process";
  // If an identity is incomplete, several processes may have the same one after another.
  if (name.pidns_inode == 0 || name.start_time == 0) return;
  if (++nobodys.times[name] >= kTimesFalse)
    live.accusation =
        "has slots, again and again, in the name of process " + std::to_string(name.pid) + ", which there is not";
}

// A tenant can write the name of any process of the node into the page. Only a process that has the page mapped counts
// as the holder: a liar could otherwise have another process watched, shown and ended.
std::uint32_t Processes::look_into(const std::string& share, LiveShare& live, const Claims& claims,
                                   const identity::ProcessList& list, std::size_t& bytes) {
  using Answer = identity::MapsSearch::Answer;
  Pages& pages = *live.pages;
  Doubts& doubts = doubts_[share];
  if (doubts.search && !claims.contains(doubts.last)) doubts.search.reset();
  auto at = doubts.search ? claims.find(doubts.last) : claims.upper_bound(doubts.last);
  std::size_t left = std::min(bytes, kMapsBytesOfAShare);
  bytes -= left;
  std::uint32_t given_back = 0;
  for (std::size_t n = std::min(claims.size(), kNamesOfAShare); n > 0 && left > 0; --n, ++at) {
    if (at == claims.end()) at = claims.begin();
    const auto& [name, slots] = *at;
    doubts.last = name;
    if (are_held_together(pages.usage(), name, slots)) {
      live.accusation =
          "has " + std::to_string(slots.size()) + " slots at once in the name of process " + std::to_string(name.pid);
      break;
    }
    const auto search = identity::find_process(list, name.pidns_inode, name.pid, name.start_time);
    if (search.found == nullptr) {
      doubts.search.reset();
      if (!search.certain) continue;
      const std::uint32_t of_nobody = give_back_all(pages.usage(), slots, remains_);
      given_back += of_nobody;
      count_nobody(share, live, name, of_nobody);
      continue;
    }
    if (!doubts.search || doubts.search->pid() != search.found->pid)
      doubts.search.emplace(proc_, search.found->pid, pages.usage_inode(), shares_.directory(share) + "/usage");
    const Answer answer = doubts.search->look(left);
    if (answer == Answer::not_yet) break;
    doubts.search.reset();
    if (answer == Answer::yes) adopt_process(share, *search.found, name, slots.front());
    if (answer != Answer::no) continue;  // not visible: attributed to no process
    given_back += give_back_all(pages.usage(), slots, remains_);
    // A program that called exec() leaves its slot behind, once.
    doubts.false_claims += slots.size();
    const auto times = ++doubts.found_false[{search.found->pid, search.found->start_time}];
    if (times < kTimesFalse && doubts.false_claims <= kMaxFalseClaims) continue;
    live.accusation = "has slots, again and again, in the name of process " + std::to_string(search.found->pid) + " (" +
                      search.found->command + "), which does not have it mapped";
    break;
  }
  bytes += left;
  return given_back;
}

std::map<std::string, Processes::Claims> Processes::all_claims() {
  std::map<std::string, Claims> all;
  for (auto& [name, live] : shares_.list()) {
    if (live.pages == nullptr || live.distrusted()) continue;
    if (Claims claims = claims_of(name, live.pages->usage()); !claims.empty()) all.emplace(name, std::move(claims));
    else if (const auto found = doubts_.find(name); found != doubts_.end()) found->second.search.reset();
  }
  return all;
}

void Processes::read_on(const std::map<std::string, Claims>& claims, std::size_t processes) {
  if (!reading_) {
    reading_.emplace(Reading{{}, identity::Listing(proc_)});
    for (const auto& [share, of_share] : claims) {
      for (const auto& [name, slots] : of_share) reading_->names[share].insert(name);
    }
  }
  if (!reading_->listing.read(processes)) return;
  read_ = {std::move(reading_->names), reading_->listing.take()};
  reading_.reset();
}

void Processes::look_for_replaced(std::size_t most) {
  auto at = entries_.upper_bound(last_asked_);
  for (std::size_t n = std::min(most, entries_.size()); n > 0; --n) {
    if (at == entries_.end()) at = entries_.begin();
    const auto [key, entry] = std::pair(at->first, at->second.get());
    last_asked_ = key;
    ++at;
    if (entry->program == 0) continue;
    const std::uint64_t now = identity::program_mark(proc_, entry->tenant.process.pid);
    if (now == 0 || now == entry->program) continue;
    const auto found = entries_.find(key);
    const std::unique_ptr<Entry> former = std::move(found->second);
    entries_.erase(found);
    LiveShare* live = shares_.find(key.first);
    if (live != nullptr && live->pages != nullptr) give_back(live->pages->usage(), former->tenant.seat, remains_);
    if (events_.left) events_.left(former->tenant);
    if (entries_.empty()) return;
    at = entries_.upper_bound(last_asked_);
  }
}

std::uint32_t Processes::adopt(std::size_t processes) {
  constexpr std::size_t kAskedAtOnce = 256;
  look_for_replaced(kAskedAtOnce);
  if (++looks_ % kLooksOfAMinute == 0)
    for (auto& [share, doubts] : doubts_) doubts.nobodys = {};
  std::map<std::string, Claims> all = all_claims();
  if (all.empty()) {
    reading_.reset();
    read_ = {};
    return 0;
  }
  read_on(all, processes);
  for (auto& [share, claims] : all) {
    const auto& names = read_.names[share];
    std::erase_if(claims, [&](const auto& claim) { return !names.contains(claim.first); });
  }
  std::erase_if(all, [](const auto& entry) { return entry.second.empty(); });
  std::uint32_t given_back = 0;
  std::size_t bytes = kMapsBytes;
  auto at = all.upper_bound(last_looked_into_);
  for (std::size_t n = all.size(); n > 0 && bytes > 0; --n, ++at) {
    if (at == all.end()) at = all.begin();
    LiveShare* live = shares_.find(at->first);
    if (live != nullptr && live->pages != nullptr)
      given_back += look_into(at->first, *live, at->second, read_.list, bytes);
    if (bytes == 0) last_looked_into_ = at->first;
  }
  return given_back;
}

void Processes::give_back_dead(const std::string& share, LiveShare& live, std::size_t& asked) {
  static const std::uint32_t own_namespace = ledger::own_identity().pidns_inode;
  ledger::UsagePage& usage = live.pages->usage();
  ledger::give_up_teardowns(usage, ledger::host_ns());
  std::map<ledger::Identity, int, ByName> pidfds;
  for (auto at = entries_.lower_bound({share, 0}); at != entries_.end() && at->first.first == share; ++at)
    pidfds[at->second->tenant.seat] = at->second->pidfd.native_handle();
  const auto is_nobody = [&](const ledger::Identity& seat) {
    if (asked == kMaxAsked) return false;
    ++asked;
    return !ledger::is_alive(seat, own_namespace);
  };
  const std::uint32_t end = slots_of(usage);
  for (std::uint32_t slot = 0; slot < end; ++slot) {
    const ledger::SlotView view = ledger::view(usage, slot);
    if (is_taken(view)) {
      const auto known = pidfds.find(view.identity);
      const bool dead = known != pidfds.end() ? identity::has_ended(known->second) : is_nobody(view.identity);
      if (!dead) continue;
      const bool marked = ledger::mark_dead(usage, {slot, view.generation});
      if (marked && known == pidfds.end()) count_nobody(share, live, view.identity, 1);
    } else if (view.kind != ledger::SlotKind::dead) {
      continue;
    }
    ledger::reap(usage, slot, remains_);
  }
}

void Processes::forget(const std::string& share) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first.first == share; });
  doubts_.erase(share);
}

std::size_t Processes::count_in(const std::string& share) const {
  std::size_t count = 0;
  for (auto at = entries_.lower_bound({share, 0}); at != entries_.end() && at->first.first == share; ++at) ++count;
  return count;
}

void Processes::each(const std::function<void(const TenantProcess&)>& visit) const {
  for (const auto& [key, entry] : entries_) visit(entry->tenant);
}

}  // namespace headgate::tenancy
