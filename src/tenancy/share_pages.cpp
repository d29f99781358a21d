#include "tenancy/share_pages.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/saturating_math.hpp"
#include "guest/ledger/draining.hpp"
#include "guest/ledger/oom_wait.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::tenancy {
namespace {

// linux/mount.h: glibc 2.36's sys/mount.h repeats it, 2.35's does not. The numbers are the same on all architectures.
constexpr long kOpenTree = 428, kMountSetattr = 442;
constexpr unsigned kClone = 1, kEmptyPath = 0x1000;
constexpr std::uint64_t kReadOnly = 1;
struct MountAttributes {
  std::uint64_t set, clear, propagation, user_namespace;
};

}  // namespace

Pages::Pages(ledger::SharePages pages, UniqueFd policy, UniqueFd usage)
    : pages_(pages),
      policy_(std::move(policy)),
      usage_(std::move(usage)),
      guard_(pages.usage, sizeof(ledger::UsagePage)) {
  struct stat status{};
  if (::fstat(usage_.get(), &status) == 0) usage_inode_ = status.st_ino;
}
Pages::~Pages() { ledger::close_pages(pages_); }

std::uint64_t Pages::cut_growth() {
  struct stat status{};
  if (::fstat(usage_.get(), &status) != 0 || status.st_size <= static_cast<off_t>(sizeof(ledger::UsagePage))) return 0;
  return ::ftruncate(usage_.get(), sizeof(ledger::UsagePage)) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

bool Pages::in_place(const std::string& directory) const {
  const auto same = [&](int held, const char* name) {
    struct stat ours{}, named{};
    return ::fstat(held, &ours) == 0 && ::lstat((directory + name).c_str(), &named) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
  };
  return same(policy_.get(), "/policy") && same(usage_.get(), "/usage");
}

std::uint64_t cut_usage_file(const std::string& directory) {
  const UniqueFd policy(::open((directory + "/policy").c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  const UniqueFd usage(::open((directory + "/usage").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  // Decided by the page that tenants cannot write.
  ledger::PageHeader header{};
  const bool ours = policy && ::pread(policy.get(), &header, sizeof header, 0) == sizeof header &&
                    header.magic == ledger::kPolicyMagic && header.version == ledger::kVersion;
  const auto most = static_cast<off_t>(sizeof(ledger::UsagePage) * (ours ? 1 : 4));
  struct stat status{};
  if (!usage || ::fstat(usage.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= most) return 0;
  return ::ftruncate(usage.get(), most) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

Error unguarded(const std::string& share) {
  return {ErrorCode::no_capacity,
          "the share '" + share +
              "' is not used: a tenant that shortens its page would end the daemon, which can guard " +
              std::to_string(SigbusGuard::kMaxGuards) + " pages at once, and does",
          "remove shares that are not needed"};
}

Result<void> apply_limits(const ledger::ShareGrant& grant, Pages& pages, const std::string& base) {
  ledger::PolicyPage& policy = pages.policy();
  const ledger::ShareGrant before = ledger::grant_of(policy);
  for (std::uint32_t i = 0; i < grant.device_count; ++i) {
    const std::uint32_t at = ledger::find_device(policy, grant.devices[i].uuid);
    const ledger::PageFault bad = ledger::set_limits(policy, at, grant.devices[i]);
    if (!bad) continue;
    for (std::uint32_t changed = 0; changed < i; ++changed) {
      const std::uint32_t back = ledger::find_device(policy, grant.devices[changed].uuid);
      (void)ledger::set_limits(policy, back, before.devices[back]);  // they were valid when they were made
    }
    return std::unexpected(page_error(bad, base, grant.name));
  }
  return {};
}

void apply_waiting(const Share& share, Pages& pages) {
  const auto most = std::chrono::milliseconds(ledger::kLongestOomWaitMs);
  const auto wait = share.oom_wait ? std::min<std::chrono::milliseconds>(*share.oom_wait, most) : most.zero();
  ledger::set_waiting(pages.policy(), share.admit == Admit::ask, static_cast<std::uint32_t>(wait.count()));
  for (const TimeAttribute& time : kTimeAttributes) {
    if (time.page == nullptr) continue;
    // The page's 32-bit field holds more than a century of seconds; longer times are cut to that.
    const std::int64_t wanted = (share.*time.kept).value_or(std::chrono::seconds(0)).count();
    ledger::set_value(pages.policy(), time.page,
                      static_cast<std::uint32_t>(std::clamp<std::int64_t>(wanted, 0, UINT32_MAX)));
  }
}

std::uint64_t held_on(const Pages& pages, const std::string& uuid) {
  const std::uint32_t at = ledger::find_device(pages.policy(), uuid.c_str());
  if (at == ledger::kMaxDevices) return 0;
  const ledger::UsagePage& usage = pages.usage();
  std::uint64_t bytes = saturating_add(ledger::used_bytes(usage, at), ledger::torn_on(usage, at).residual);
  const std::uint32_t seen = std::min(usage.slots_seen.load(std::memory_order_acquire), ledger::kMaxSlots);
  for (std::uint32_t slot = 0; slot < seen; ++slot)
    if (ledger::view(usage, slot).kind == ledger::SlotKind::live)
      bytes = saturating_add(bytes, usage.slots[slot].devices[at].residual_bytes.load(std::memory_order_relaxed));
  return bytes;
}

UniqueFd open_read_only_mount(const std::string& directory, const std::string& name) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd mount(
      static_cast<int>(::syscall(kOpenTree, AT_FDCWD, directory.c_str(), kClone | unsigned{O_CLOEXEC})));
  MountAttributes attributes{kReadOnly, 0, 0, 0};
  if (mount && ::syscall(kMountSetattr, mount.get(), "", kEmptyPath, &attributes, sizeof attributes) == 0) {
    if (UniqueFd file(::openat(mount.get(), name.c_str(), kFlags)); file) return file;
  }
  return UniqueFd(::open((directory + "/" + name).c_str(), kFlags));
}

Result<void> MappingScan::none(const std::string& share, const std::string& place, std::uint64_t inode,
                               const std::string& proc) {
  using Answer = identity::MapsSearch::Answer;
  constexpr std::size_t kBytesOfACall = 1u << 20;
  std::size_t bytes = kBytesOfACall;
  for (bool fresh = false;;) {
    for (; next_ < processes_.size(); ++next_, search_.reset()) {
      const std::uint32_t pid = processes_[next_].first;
      if (pid == static_cast<std::uint32_t>(::getpid())) continue;
      if (!search_) search_.emplace(proc, pid, inode, place + "/usage");
      const Answer answer = search_->look(bytes);
      if (answer == Answer::not_yet) {
        return fail(ErrorCode::failed,
                    "the page of the share '" + share + "' is damaged, and its users are being looked for: " +
                        std::to_string(next_) + " of " + std::to_string(processes_.size()) + " processes do not",
                    "ask again: it goes on from there");
      }
      if (answer != Answer::yes) continue;
      // The next call starts with this process, and does not search all of /proc again.
      search_.reset();
      const auto process = identity::read_process(proc, pid);
      return fail(ErrorCode::conflict,
                  "the share '" + share + "' is in use by process " + std::to_string(pid) + " (" +
                      (process ? process->command : "") + ")",
                  "end it first: the share's page is damaged, so its other processes are not known");
    }
    // Check processes that started during earlier calls too.
    if (fresh) return {};
    fresh = true;
    const identity::ProcessList list = identity::list_processes(proc);
    if (!list.complete || list.all.empty()) {
      *this = {};
      return fail(ErrorCode::failed,
                  "the page of the share '" + share + "' is damaged, and /proc does not show what uses it",
                  "end its programs, remove " + place + ", restart headgated, and remove the share then");
    }
    const std::set seen(processes_.begin(), processes_.end());
    for (const identity::Process& now : list.all)
      if (const std::pair which(now.pid, now.start_time); !seen.contains(which)) processes_.push_back(which);
  }
}

}  // namespace headgate::tenancy
