#include "tenancy/processes.hpp"

#include <algorithm>

namespace headgate::tenancy {
namespace {

bool is_taken(const ledger::SlotView& seat) {
  return seat.kind == ledger::SlotKind::live || seat.kind == ledger::SlotKind::claiming;
}
bool same(const ledger::Identity& a, const ledger::Identity& b) {
  return a.pid == b.pid && a.pidns_inode == b.pidns_inode && a.start_time == b.start_time;
}

// By who sits there, not by what was said on the socket: a process may die between its claim and its word about it.
void give_back(ledger::UsagePage& usage, const ledger::Identity& seat, ledger::Remains remains) {
  for (std::uint32_t slot = 0; slot < ledger::kMaxSlots; ++slot) {
    const ledger::SlotView view = ledger::view(usage, slot);
    if (is_taken(view) && same(view.identity, seat) && ledger::mark_dead(usage, {slot, view.generation}))
      ledger::reap(usage, slot, remains);
  }
}

}  // namespace

Processes::Processes(boost::asio::any_io_executor executor, Shares& shares, std::string proc, Events events,
                     ledger::Remains remains)
    : executor_(std::move(executor)),
      shares_(shares),
      proc_(std::move(proc)),
      events_(std::move(events)),
      remains_(remains) {}

void Processes::enter(TenantProcess process, UniqueFd pidfd) {
  const Key key{process.share, process.process.pid};
  auto entry = std::make_unique<Entry>(
      std::move(process), boost::asio::posix::stream_descriptor(executor_, pidfd.release()), ++last_serial_);
  const TenantProcess& tenant = entry->tenant;
  entries_[key] = std::move(entry);
  watch(key, last_serial_);
  if (events_.joined) events_.joined(tenant);
}

bool Processes::seat(const std::string& share, std::uint32_t pid, ledger::SlotRef slot) {
  const auto found = entries_.find({share, pid});
  const LiveShare* live = shares_.find(share);
  if (found == entries_.end() || live == nullptr || live->pages == nullptr) return false;
  const ledger::SlotView view = ledger::view(live->pages->usage(), slot.slot);
  TenantProcess& tenant = found->second->tenant;
  if (view.kind != ledger::SlotKind::live || view.generation != slot.generation || !same(view.identity, tenant.seat))
    return false;
  tenant.slot = slot;
  return true;
}

// The handler knows its entry by serial: the pid may have been given to another process, or the process may have entered anew.
void Processes::watch(const Key& key, std::uint64_t serial) {
  entries_.at(key)->pidfd.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                     [this, key, serial](const boost::system::error_code& error) {
                                       if (!error) ended(key, serial);  // else closed by us; we may be gone
                                     });
}

void Processes::ended(const Key& key, std::uint64_t serial) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second->serial != serial) return;
  if (!identity::has_ended(found->second->pidfd.native_handle())) return watch(key, serial);
  const std::unique_ptr<Entry> entry = std::move(found->second);
  entries_.erase(found);
  LiveShare* live = shares_.find(key.first);
  if (live != nullptr && live->pages != nullptr) give_back(live->pages->usage(), entry->tenant.seat, remains_);
  if (events_.left) events_.left(entry->tenant);
}

bool Processes::known(const std::string& share, const ledger::Identity& seat) const {
  for (auto at = entries_.lower_bound({share, 0}); at != entries_.end() && at->first.first == share; ++at) {
    if (same(at->second->tenant.seat, seat)) return true;
  }
  return false;
}

// Whoever writes in the page can name any process of the node there: only one that has the page mapped is taken for its
// holder, or a liar could have others watched, shown and ended in its stead.
bool Processes::adopt_slot(const std::string& name, Pages& pages, const Claim& claim,
                           const identity::ProcessList& list) {
  const ledger::Identity& seat = claim.view.identity;
  const auto search = identity::find_process(list, seat.pidns_inode, seat.pid, seat.start_time);
  bool dead = search.found == nullptr && search.certain;
  if (search.found != nullptr) {
    const auto mapped =
        identity::maps_file(proc_, search.found->pid, pages.usage_inode(), shares_.directory(name) + "/usage");
    if (!mapped.has_value())
      return false;  // it is ending, or a thread of the kernel, or hidden from us: bound to nobody
    dead = !*mapped;
  }
  if (dead) {
    if (!ledger::mark_dead(pages.usage(), {claim.slot, claim.view.generation})) return false;
    ledger::reap(pages.usage(), claim.slot, remains_);
    return true;
  }
  if (search.found == nullptr) return false;
  auto pidfd = identity::pidfd_of(*search.found, proc_);
  if (!pidfd) return false;  // it ended this moment: the next look finds it gone
  TenantProcess tenant{.share = name,
                       .process = *search.found,
                       .uid = search.found->uid,
                       .where = {},
                       .seat = seat,
                       .slot = ledger::SlotRef{claim.slot, claim.view.generation},
                       .adopted = true};
  if (const auto cgroups = identity::read_cgroups(proc_, search.found->pid))
    tenant.where = identity::identify(*cgroups);
  enter(std::move(tenant), std::move(*pidfd));
  return false;
}

std::uint32_t Processes::adopt() {
  std::vector<std::pair<std::string, Claim>> claims;
  for (auto& [name, live] : shares_.list()) {
    if (live.pages == nullptr || live.distrusted()) continue;
    for (std::uint32_t slot = 0; slot < ledger::kMaxSlots; ++slot) {
      const ledger::SlotView view = ledger::view(live.pages->usage(), slot);
      if (is_taken(view) && !known(name, view.identity)) claims.emplace_back(name, Claim{slot, view});
    }
  }
  if (claims.empty()) return 0;
  // After all the slots were seen: a process that claims later is not looked for in a list that is too old for it.
  const identity::ProcessList list = identity::list_processes(proc_);
  std::uint32_t given_back = 0;
  for (const auto& [name, claim] : claims) {
    LiveShare* live = shares_.find(name);
    if (live != nullptr && live->pages != nullptr) given_back += adopt_slot(name, *live->pages, claim, list) ? 1 : 0;
  }
  return given_back;
}

void Processes::forget(const std::string& share) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first.first == share; });
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
