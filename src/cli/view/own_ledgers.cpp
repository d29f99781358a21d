#include "cli/view/own_ledgers.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/user_name.hpp"
#include "cli/term/output.hpp"
#include "guest/ledger/registration.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::cli {
namespace {

namespace fs = std::filesystem;

class Pages {
 public:
  Pages() = default;
  Pages(const Pages&) = delete;
  ~Pages() { ledger::close_pages(shared); }
  ledger::SharePages shared;
};

snapshot::Share broken_share(const std::string& name, const Error& error) {
  snapshot::Share share;
  share.name = harmless(name);
  share.state = "broken";
  share.level = "observe";
  share.problem = error.message + (error.hint.empty() ? "" : "; " + error.hint);
  return share;
}

// Returns true if one of our processes has the file mapped, or if that is unknown.
bool has_mapped(std::uint32_t pid, ino_t inode) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  bool any = false;
  for (std::string line; std::getline(maps, line); any = true) {
    // proc(5): address, permissions, offset, device, inode
    std::istringstream words(line);
    std::string skipped;
    std::uint64_t mapped = 0;
    if (words >> skipped >> skipped >> skipped >> skipped >> mapped && mapped == inode) return true;
  }
  return !any;
}

// exec() keeps PID and start time but drops all mappings, so the former program no longer holds any memory.
void reap_replaced(ledger::UsagePage& usage, const std::string& file) {
  struct stat facts{};
  if (::stat(file.c_str(), &facts) != 0) return;
  const std::uint32_t own_namespace = ledger::own_identity().pidns_inode;
  const std::uint32_t end = std::min(usage.slots_seen.load(std::memory_order_acquire), ledger::kMaxSlots);
  for (std::uint32_t slot = 0; slot < end; ++slot) {
    const ledger::SlotView seat = ledger::view(usage, slot);
    if (seat.kind != ledger::SlotKind::live || seat.identity.pidns_inode != own_namespace) continue;
    if (has_mapped(seat.identity.pid, facts.st_ino) || ledger::view(usage, slot).generation != seat.generation)
      continue;
    if (ledger::mark_dead(usage, {slot, seat.generation})) ledger::reap(usage, slot, ledger::Remains::draining);
  }
}

}  // namespace

Error share_error(const ledger::PageFault& fault, const std::string& base, const std::string& name) {
  using enum ledger::PageError;
  std::array<char, 512> text{};
  ledger::explain(fault, text.data(), text.size(), base.c_str());
  auto code = ErrorCode::failed;
  switch (fault.error) {
    case no_permission:
    case foreign_owner:
    case open_permissions:
    case symbolic_link: code = ErrorCode::denied; break;
    case no_space:
    case slots_full: code = ErrorCode::no_capacity; break;
    case different_values:
    case bad_name:
    case bad_memory_limit:
    case bad_ceiling: code = ErrorCode::usage; break;
    case pages_newer:
    case pages_older: code = ErrorCode::unsupported; break;
    default: break;
  }
  // If the share could not be created, there is no directory to point to.
  const std::string directory = base + "/shares/" + name;
  std::error_code ignored;
  return {code, "the share '" + harmless(name) + "': " + text.data(),
          fs::exists(directory, ignored) ? "it lies in " + directory : ""};
}

OwnLedgers read_own_ledgers(const std::string& base) {
  OwnLedgers ledgers;
  std::error_code error;
  for (fs::directory_iterator at(base + "/shares", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(".")) continue;  // one being filled or removed
    Pages pages;
    if (const auto fault = ledger::open_share(base.c_str(), name.c_str(), ledger::Access::owner, pages.shared)) {
      // A share removed while we read the directory is not broken.
      if (fault.error != ledger::PageError::not_found)
        ledgers.broken.push_back(broken_share(name, share_error(fault, base, name)));
      continue;
    }
    ledger::reap_dead(*pages.shared.usage, ledger::Remains::draining);
    reap_replaced(*pages.shared.usage, (at->path() / "usage").string());
    auto& ledger = ledgers.list.emplace_back(observe::read_ledger(*pages.shared.policy, *pages.shared.usage));
    ledger.share.name = name;
    // A daemon made it and restores it from its store, so it outlives its last process.
    std::error_code ignored;
    ledger.share.created = fs::exists(at->path() / ledger::kTenantSocket, ignored);
    ledger.share.owner = user_name(ledger.share.owner_uid);
    for (auto& device : ledger.share.devices) device.uuid = harmless(device.uuid);
  }
  const auto name_of = [](const observe::LedgerSnapshot& ledger) -> const std::string& { return ledger.share.name; };
  std::ranges::sort(ledgers.list, {}, name_of);
  std::ranges::sort(ledgers.broken, {}, &snapshot::Share::name);
  return ledgers;
}

}  // namespace headgate::cli
