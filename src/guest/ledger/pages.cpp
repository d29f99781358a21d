#include "guest/ledger/pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "guest/bare/clock.hpp"
#include "guest/bare/text.hpp"
#include "guest/ledger/check.hpp"
#include "guest/ledger/closing.hpp"
#include "guest/ledger/directory.hpp"
#include "guest/ledger/step.hpp"

namespace headgate::ledger {
namespace {

constexpr std::int64_t kPatienceNs = 5'000'000'000;

void nap() {
  const timespec millisecond{0, 1'000'000};
  ::nanosleep(&millisecond, nullptr);
}

void* map(int fd, std::size_t bytes, bool writable) {
  void* at = ::mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return nullptr;
  // A process touches few, distant parts of the pages. By default the kernel reads ahead 128 KiB at each first touch of
  // a file on disk: half the time of creating a share there.
  ::madvise(at, bytes, MADV_RANDOM);
  return at;
}

void fill(PolicyPage& page, const ShareGrant& grant, std::uint64_t generation) {
  page.header = {kPolicyMagic, kVersion, sizeof(PolicyPage)};
  std::memcpy(page.share, grant.name, sizeof page.share);
  page.device_count = grant.device_count;
  page.level = grant.level;
  page.fail_policy = grant.fail_policy;
  page.owner_uid = ::geteuid();
  page.generation = generation;
  for (std::uint32_t i = 0; i < grant.device_count; ++i) {
    DevicePolicy& to = page.devices[i];
    const DeviceGrant& from = grant.devices[i];
    std::memcpy(to.uuid, from.uuid, sizeof to.uuid);
    put_values(to, from);
  }
}

void fill(UsagePage& page, const ShareGrant& grant, std::uint64_t generation) {
  page.header = {kUsageMagic, kVersion, sizeof(UsagePage)};
  page.slot_count = kMaxSlots;
  page.device_count = grant.device_count;
  page.generation = generation;
}

template <typename Page>
PageFault make_page(int directory, const char* name, const ShareGrant& grant, std::uint64_t generation) {
  Descriptor file;
  if (const PageFault bad = make_page_file(directory, name, sizeof(Page), file)) return bad;
  void* at = map(file.get(), sizeof(Page), true);
  if (at == nullptr) return system_fault(name, errno);
  step("make: fill");
  fill(*static_cast<Page*>(at), grant, generation);
  ::munmap(at, sizeof(Page));
  return {};
}

PageFault make_share(int shares, const ShareGrant& grant) {
  char scratch[48];
  sweep_scratch(shares);
  scratch_name(kBeingMade, scratch);
  if (::mkdirat(shares, scratch, 0700) != 0) return system_fault(grant.name, errno);
  step("make: directory");
  const std::uint64_t generation = random_word();
  PageFault bad;
  {
    const Descriptor directory(::openat(shares, scratch, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory.valid() || ::fchmod(directory.get(), 0700) != 0) bad = system_fault(grant.name, errno);
    if (!bad) bad = make_page<PolicyPage>(directory.get(), "policy", grant, generation);
    if (!bad) bad = make_page<UsagePage>(directory.get(), "usage", grant, generation);
  }
  step("make: name");
  // rename() replaces only an empty directory, so one of two makers gets the name, with both pages inside.
  if (!bad && ::renameat(shares, scratch, shares, grant.name) != 0) {
    const int error = errno;
    bad = error == EEXIST || error == ENOTEMPTY || error == ENOTDIR ? fault(PageError::already_exists, grant.name)
                                                                    : system_fault(grant.name, error);
  }
  if (bad) remove_directory_tree(shares, scratch);
  step("make: end");
  return bad;
}

struct PageFile {
  int fd;
  std::size_t bytes;
};

PageFault map_files(PageFile policy_file, PageFile usage_file, bool owner, SharePages& out) {
  // Map only as far as the file and our structs reach: a load past the file's end would be a SIGBUS in the host
  // program.
  if (policy_file.bytes < sizeof(PageHeader))
    return fault(PageError::truncated, "policy", policy_file.bytes, sizeof(PolicyPage));
  if (usage_file.bytes < sizeof(PageHeader))
    return fault(PageError::truncated, "usage", usage_file.bytes, sizeof(UsagePage));
  const std::size_t policy_mapped = std::min(policy_file.bytes, sizeof(PolicyPage));
  const std::size_t usage_mapped = std::min(usage_file.bytes, sizeof(UsagePage));
  void* policy = map(policy_file.fd, policy_mapped, owner);
  if (policy == nullptr) return system_fault("policy", errno);
  void* usage = map(usage_file.fd, usage_mapped, true);
  if (usage == nullptr) {
    const PageFault bad = system_fault("usage", errno);
    ::munmap(policy, policy_mapped);
    return bad;
  }
  const PageFault bad = check_pages(static_cast<PolicyPage*>(policy), policy_file.bytes, static_cast<UsagePage*>(usage),
                                    usage_file.bytes);
  if (bad) {
    ::munmap(policy, policy_mapped);
    ::munmap(usage, usage_mapped);
    return bad;
  }
  out = {static_cast<PolicyPage*>(policy), owner ? static_cast<PolicyPage*>(policy) : nullptr,
         static_cast<UsagePage*>(usage)};
  return {};
}

// `name`: the share's expected name; null if any name is accepted.
PageFault map_share(int directory, const char* name, Access access, SharePages& out) {
  Descriptor policy_file;
  Descriptor usage_file;
  std::size_t policy_bytes = 0;
  std::size_t usage_bytes = 0;
  const bool owner = access == Access::owner;
  if (const PageFault bad = open_page_file(directory, "policy", owner, policy_file, policy_bytes)) return bad;
  if (const PageFault bad = open_page_file(directory, "usage", true, usage_file, usage_bytes)) return bad;
  if (const PageFault bad = map_files({policy_file.get(), policy_bytes}, {usage_file.get(), usage_bytes}, owner, out))
    return bad;
  if (name == nullptr || text_of(out.policy->share) == name) return {};
  const PageFault bad = fault(PageError::wrong_name, text_of(out.policy->share));
  close_pages(out);
  return bad;
}

// Serializes removals in one base, by a lock that ends with its process and that fork() does not copy. Only removal
// needs it: NAME must not become another share between recognising the closed share and renaming it.
PageFault lock_removal(int shares, Descriptor& out) {
  out.reset(::openat(shares, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!out.valid()) return system_fault(".lock", errno);
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  const std::int64_t deadline = bare::now_ns() + kPatienceNs;
  while (::syscall(SYS_fcntl, out.get(), F_SETLK, &whole) != 0) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) return system_fault(".lock", errno);
    if (bare::now_ns() > deadline) return fault(PageError::busy, ".lock");
    nap();
  }
  return {};
}

// Removes the directory of a closed share if NAME is still that share.
PageFault remove_closed(const char* base, const char* name, std::uint64_t generation) {
  Descriptor shares;
  if (const PageFault bad = open_shares(base, false, shares))
    return bad.error == PageError::no_runtime_directory ? PageFault{} : bad;
  Descriptor lock;
  if (const PageFault bad = lock_removal(shares.get(), lock)) return bad;
  SharePages now;
  {
    Descriptor directory;
    if (const PageFault bad = open_share_directory(shares.get(), name, directory))
      return bad.error == PageError::not_found ? PageFault{} : bad;
    const PageFault bad = map_share(directory.get(), name, Access::tenant, now);
    if (bad || now.usage == nullptr) return bad;
  }
  const bool same = now.usage->generation == generation && now.usage->closing.load() == kShareClosed;
  close_pages(now);
  if (!same) return {};
  char scratch[48];
  scratch_name(kBeingRemoved, scratch);
  step("remove: name");
  if (::renameat(shares.get(), name, shares.get(), scratch) != 0) return system_fault(name, errno);
  remove_directory_tree(shares.get(), scratch);
  sweep_scratch(shares.get());
  return {};
}

// Closes the share and removes it if it is empty; `removed` tells which.
PageFault close_and_remove(const char* base, const char* name, SharePages& pages, bool& removed) {
  removed = close_if_empty(*pages.usage);
  const std::uint64_t generation = pages.usage->generation;
  close_pages(pages);
  return removed ? remove_closed(base, name, generation) : PageFault{};
}

PageFault open_in(int shares, const char* name, Access access, SharePages& out) {
  Descriptor directory;
  if (const PageFault bad = open_share_directory(shares, name, directory)) return bad;
  const PageFault bad = map_share(directory.get(), name, access, out);
  if (bad.error != PageError::not_found) return bad;
  // A page is missing. We never leave half a share under its name, so it was removed by hand, and processes may still
  // hold the old pages: creating new ones would give the share a second account.
  return is_half_a_share(shares, name, directory.get()) ? fault(PageError::page_missing, bad.what) : bad;
}

}  // namespace

bool runtime_directory(const char* headgate_runtime_dir, const char* xdg_runtime_dir, char* buffer, std::size_t size) {
  bare::Text text({buffer, size});
  if (headgate_runtime_dir != nullptr && *headgate_runtime_dir != '\0') {
    text.add(headgate_runtime_dir);
  } else if (xdg_runtime_dir != nullptr && *xdg_runtime_dir != '\0') {
    text.add(xdg_runtime_dir).add("/headgate");
  } else {
    // A container with a read-only root still has a writable /dev/shm.
    const bool is_read_only = ::access("/tmp", W_OK) != 0 && errno == EROFS;
    text.add(is_read_only ? "/dev/shm/headgate-" : "/tmp/headgate-").add_decimal(::geteuid());
  }
  return !text.full();
}

void close_pages(SharePages& pages) {
  if (pages.policy != nullptr) ::munmap(const_cast<PolicyPage*>(pages.policy), sizeof(PolicyPage));
  if (pages.usage != nullptr) ::munmap(pages.usage, sizeof(UsagePage));
  pages = {};
}

PageFault open_share(const char* base, const char* name, Access access, SharePages& out) {
  Descriptor shares;
  if (const PageFault bad = open_shares(base, false, shares)) return bad;
  return open_in(shares.get(), name, access, out);
}

PageFault create_share(const char* base, const ShareGrant& grant, Access access, SharePages& out) {
  if (const PageFault bad = check_grant(grant)) return bad;
  Descriptor shares;
  if (const PageFault bad = open_shares(base, true, shares)) return bad;
  if (const PageFault bad = make_share(shares.get(), grant)) return bad;
  return open_in(shares.get(), grant.name, access, out);
}

PageFault create_or_join_share(const char* base, const ShareGrant& grant, Access access, SharePages& out) {
  if (const PageFault bad = check_grant(grant)) return bad;
  const std::int64_t deadline = bare::now_ns() + kPatienceNs;
  while (bare::now_ns() < deadline) {
    Descriptor shares;
    if (const PageFault bad = open_shares(base, true, shares)) return bad;
    PageFault bad = open_in(shares.get(), grant.name, access, out);
    if (bad.error == PageError::not_found) {
      bad = make_share(shares.get(), grant);
      if (!bad) bad = open_in(shares.get(), grant.name, access, out);
      // Lost a race to another maker or a remover: try again.
      if (bad.error == PageError::already_exists || bad.error == PageError::not_found) continue;
    }
    if (bad) return bad;
    const bool closed = out.usage->closing.load(std::memory_order_seq_cst) == kShareClosed;
    const PageFault different = compare(grant_of(*out.policy), grant);
    if (!closed && !different) return {};
    // Other values only conflict while the share has processes. The empty share of a killed run can be replaced.
    bool removed = false;
    if (const PageFault stuck = close_and_remove(base, grant.name, out, removed)) return stuck;
    if (!removed) return different;
  }
  return fault(PageError::busy, grant.name);
}

PageFault map_pages(int policy, int usage, SharePages& out) {
  PageFile files[2] = {{policy, 0}, {usage, 0}};
  for (PageFile& file : files) {
    if (const PageFault bad = regular_file_size(file.fd, file.fd == policy ? "policy" : "usage", file.bytes))
      return bad;
  }
  return map_files(files[0], files[1], false, out);
}

PageFault open_share_at(const char* directory, SharePages& out) {
  Descriptor folder;
  if (const PageFault bad = open_share_directory_at(directory, folder)) return bad;
  return map_share(folder.get(), nullptr, Access::tenant, out);
}

ClaimResult claim_for_self(UsagePage& page, SlotRef& out) {
  char command[16] = {};
  ::prctl(PR_GET_NAME, command);
  bool lacked = false;
  const Identity self = own_identity(&lacked);
  return lacked ? ClaimResult::unnamed : claim(page, self, command, out);
}

PageFault enter_share(const char* base, const char* name, const ShareGrant* grant, SharePages& out, SlotRef& slot) {
  if (grant != nullptr) {
    if (const PageFault bad = check_grant(*grant)) return bad;
    name = grant->name;
  }
  const std::int64_t deadline = bare::now_ns() + kPatienceNs;
  while (bare::now_ns() < deadline) {
    const PageFault bad = grant != nullptr ? create_or_join_share(base, *grant, Access::tenant, out)
                                           : open_share(base, name, Access::tenant, out);
    if (bad) return bad;
    if (out.policy->ask_first.load(std::memory_order_acquire) != 0) {
      close_pages(out);
      return fault(PageError::asks_first, name);
    }
    const bool draining = is_draining(*out.policy);
    const ClaimResult claimed = draining ? ClaimResult::closing : claim_for_self(*out.usage, slot);
    if (claimed == ClaimResult::claimed) return {};
    if (claimed == ClaimResult::full || claimed == ClaimResult::unnamed) {
      close_pages(out);
      return claimed == ClaimResult::full ? fault(PageError::slots_full, name, kMaxSlots, kMaxSlots)
                                          : system_fault("/proc/self/stat", EMFILE);
    }
    bool removed = false;
    if (const PageFault stuck = close_and_remove(base, name, out, removed)) return stuck;
    if (draining && !removed) return fault(PageError::draining, name);
  }
  return fault(PageError::busy, name);
}

PageFault remove_if_empty(const char* base, const char* name, bool& removed) {
  removed = false;
  SharePages pages;
  const PageFault bad = open_share(base, name, Access::tenant, pages);
  if (bad || pages.usage == nullptr) return bad;
  return close_and_remove(base, name, pages, removed);
}

}  // namespace headgate::ledger
