// Creates, joins, checks, changes and removes a share's pages in a directory: BASE/shares/NAME/{policy,usage}.
//
// Directories are 0700 (0711 with a daemon, for passage) and files 0600, owned by the caller's effective uid. Symbolic
// links and other users' files are refused. Both pages appear at once (a scratch directory is filled and renamed), so
// half a share is never visible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "guest/ledger/layout.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::ledger {

struct DeviceGrant {
  char uuid[kUuidBytes] = {};                         // "GPU-...", terminated
  std::uint64_t memory_limit_bytes = kNoMemoryLimit;  // 1.., kNoMemoryLimit: none
  std::uint64_t host_limit_bytes = 0;                 // host memory past that limit; 0: none
  std::uint32_t compute_ceiling_ppm = kWholeGpu;      // 1..kWholeGpu
  std::uint32_t compute_burst_ppm = 0;                // while no other share works: above the ceiling; 0: none
  std::uint32_t compute_guarantee_ppm = 0;            // 0..ceiling
  std::uint32_t weight = 100;                         // 1..1000
  std::uint32_t priority_class = 1;                   // 0 best effort, 1 normal, 2 latency
  bool oversubscribed = false;                        // host_limit_bytes is shown as card memory
};

struct ShareGrant {
  char name[kNameBytes] = {};  // [A-Za-z0-9_.-], not starting with a dot, terminated
  std::uint32_t device_count = 0;
  Level level = Level::hook;
  FailPolicy fail_policy = FailPolicy::open;
  DeviceGrant devices[kMaxDevices] = {};
};

enum class PageError : std::uint32_t {
  none,
  // the grant
  bad_name,
  bad_device_count,
  bad_uuid,
  duplicate_uuid,
  bad_memory_limit,
  bad_ceiling,
  bad_burst,
  bad_guarantee,
  bad_weight,
  bad_class,
  bad_level,
  bad_fail_policy,
  // the directory
  path_too_long,
  relative_path,
  no_directory,
  no_runtime_directory,
  foreign_owner,
  open_permissions,
  symbolic_link,
  not_a_file,
  read_only,
  no_space,
  file_size_limit,
  no_permission,
  os_error,
  // the pages
  not_found,
  page_missing,
  truncated,
  wrong_size,
  wrong_magic,
  pages_newer,
  pages_older,
  wrong_name,
  unterminated,
  pages_disagree,
  bad_slot_count,
  // joining
  already_exists,
  different_values,
  other_devices,
  slots_full,
  draining,
  busy,
  asks_first,
};

// Describes a fault without allocating; explain() makes the sentence.
struct PageFault {
  PageError error = PageError::none;
  int os_errno = 0;
  std::uint32_t device = kMaxDevices;  // index in the pages, if the fault concerns a device
  std::uint64_t found = 0;             // the offending value
  std::uint64_t wanted = 0;            // the accepted value, or the other side's
  char what[80] = {};                  // the offending name, path or field; terminated
  explicit operator bool() const { return error != PageError::none; }
};

// Writes one sentence (what, value, accepted, what to do) into `buffer`, always terminated; returns its length. With
// `base`, the runtime directory, the sentence includes the path of the file or directory.
std::size_t explain(const PageFault& fault, char* buffer, std::size_t size, const char* base = nullptr);

enum class Access : std::uint32_t { tenant, owner };

struct SharePages {
  const PolicyPage* policy = nullptr;
  PolicyPage* writable_policy = nullptr;  // the same page; null for a tenant
  UsagePage* usage = nullptr;
};

// Where shares live: HEADGATE_RUNTIME_DIR, else $XDG_RUNTIME_DIR/headgate, else /tmp/headgate-UID, or, where /tmp is on
// a read-only file system, /dev/shm/headgate-UID. Returns false if it does not fit `size`. Arguments are the values of
// those variables, null where unset (guest code asks the environment itself).
bool runtime_directory(const char* headgate_runtime_dir, const char* xdg_runtime_dir, char* buffer, std::size_t size);

// Each fills `out` on success; close_pages() unmaps. `base` is the runtime directory; missing directories are created.
PageFault create_share(const char* base, const ShareGrant& grant, Access access, SharePages& out);
PageFault open_share(const char* base, const char* name, Access access, SharePages& out);
// Creates the share, or joins it if it exists with the same values. Device order may differ.
PageFault create_or_join_share(const char* base, const ShareGrant& grant, Access access, SharePages& out);
void close_pages(SharePages& pages);

// Opens, creates or joins the share and claims a slot; retries if the share was just being removed. With `grant` null,
// joins the share `name` as it is; otherwise ignores `name`.
PageFault enter_share(const char* base, const char* name, const ShareGrant* grant, SharePages& out, SlotRef& slot);

// Maps pages from descriptors, which stay the caller's; `out` is as for a tenant. Checks them like open_share(), except
// their owner: the kernel let us have them.
PageFault map_pages(int policy, int usage, SharePages& out);
// Opens the share at `directory`, an absolute path: a container may have it mounted anywhere.
PageFault open_share_at(const char* directory, SharePages& out);

// Checks both pages as if written by an attacker: no error means that every field the guest follows is in range.
PageFault check_pages(const PolicyPage* policy, std::size_t policy_bytes, const UsagePage* usage,
                      std::size_t usage_bytes);
// Checks the grant's own values.
PageFault check_grant(const ShareGrant& grant);

// Owner only. Sets new values for one device; tenants use them at their next look (the gate epoch moves).
PageFault set_limits(PolicyPage& policy, std::uint32_t device, const DeviceGrant& grant);

// Owner only. Sets what all limiters of the share do from now on. Wakes waiters at a gate.
void set_command(PolicyPage& policy, Command command);

// Returns whether the share admits no new process. A process checks this before it claims a slot; one that checked just
// before the owner's command gets in.
bool is_draining(const PolicyPage& policy);
bool is_paused(const PolicyPage& policy);
inline constexpr std::string_view kDrainingWords =
    "the share is being drained: it takes no new process until its owner resumes it";

// Owner only. Makes limiters give back unused pool memory now, without waiting for streams or changing the command.
void ask_reclaim(PolicyPage& policy);

// Owner only. Changes a value that concerns the whole share. Tenants see it at their next look.
void set_value(PolicyPage& policy, std::atomic<std::uint32_t> PolicyPage::* value, std::uint32_t to);

// Copies the pages' grant out. Its counts and names are in range, whatever was written there since the check.
ShareGrant grant_of(const PolicyPage& policy);

// Returns a device's index in the pages, or kMaxDevices if it is not in the share. Case-sensitive.
std::uint32_t find_device(const PolicyPage& policy, const char* uuid);

// Reaps dead processes; if the share then has no process, removes its directory and sets `removed`. Safe against
// processes joining at the same time: they find the whole share or none.
PageFault remove_if_empty(const char* base, const char* name, bool& removed);

}  // namespace headgate::ledger
