#include "guest/limiter/session/session.hpp"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "guest/bare/clock.hpp"
#include "guest/bare/futex.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/bare/text.hpp"
#include "guest/grant/text.hpp"
#include "guest/ledger/directory.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/current.hpp"
#include "guest/limiter/session/devices.hpp"
#include "guest/limiter/session/environment_grant.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/node_page.hpp"
#include "guest/limiter/session/registration.hpp"
#include "guest/limiter/session/shown_gpus.hpp"

// glibc's pthread_atfork() is a small static function around this one; we link no static part of libc.
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* dso_handle);
extern "C" void* __dso_handle;

namespace headgate::limiter {

constinit Session session{};

namespace {

constexpr abi::CUresult kRefused = abi::CUDA_ERROR_NOT_PERMITTED;

std::atomic<bool> has_slot{false};
std::atomic<std::uint32_t> opening{0};  // 1 while a thread opens the session; others wait
std::atomic<bool> fork_watched{false};
std::atomic<bool> parent_had_views{false};  // a forked child keeps using the NVML that its parent initialised
__thread bool opening_here __attribute__((tls_model("initial-exec")));

void watch_forks() {
  if (!fork_watched.exchange(true)) __register_atfork(nullptr, nullptr, &reset_after_fork, __dso_handle);
}

// One opener at a time, never nested: the driver's own calls may come back through our hooks.
class Opening {
 public:
  Opening() {
    std::uint32_t idle = 0;
    while (!opening.compare_exchange_weak(idle, 1, std::memory_order_acquire)) {
      bare::futex_wait(&opening, 1, 10'000'000);
      idle = 0;
    }
    opening_here = true;
  }
  ~Opening() {
    opening_here = false;
    opening.store(0, std::memory_order_release);
    bare::futex_wake_all(&opening);
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
};

Membership refuse(const char* why) {
  log_line(LogLevel::error, "this process is not let onto the GPU: %s", why);
  session.membership.store(Membership::refused, std::memory_order_release);
  return Membership::refused;
}

std::uint32_t page_index_of(std::string_view uuid) {
  for (std::uint32_t i = 0; i < session.held.device_count; ++i) {
    if (uuid == session.held.devices[i].uuid) return i;
  }
  return kNoDevice;
}

// If numbers in CUDA_VISIBLE_DEVICES index the share's GPUs (before_init.hpp), so must NVML's: programs mix them.
// HEADGATE_VISIBLE_GPUS gives the order; a share found by its directory uses the order of its pages.
void choose_shown(bool by_directory) {
  session.shown_count = 0;
  const char* const listed = variable("HEADGATE_VISIBLE_GPUS");
  for (std::string_view rest(listed != nullptr ? listed : ""); !rest.empty();) {
    const std::size_t comma = grant::position(rest, ',');
    const std::uint32_t index = page_index_of(grant::trimmed(grant::first(rest, comma)));
    rest = grant::from(rest, comma + 1);
    std::uint8_t* const end = session.shown + session.shown_count;
    if (index != kNoDevice && std::find(session.shown, end, index) == end)
      session.shown[session.shown_count++] = static_cast<std::uint8_t>(index);
  }
  // A list that names none of the share's GPUs is not from `headgate run`.
  if (session.shown_count != 0 || (!by_directory && listed == nullptr)) return;
  for (std::uint32_t i = 0; i < session.held.device_count; ++i) session.shown[i] = static_cast<std::uint8_t>(i);
  session.shown_count = session.held.device_count;
}

// Not inlined: some threads have small stacks, and join() has a large frame.
[[gnu::noinline]] void remember_names(const ledger::PolicyPage& policy, bool by_directory) {
  session.held = ledger::grant_of(policy);
  choose_shown(by_directory);
  forget_nvml_numbers();
}

void become_member(const ledger::SharePages& pages, ledger::SlotRef slot, bool with_slot) {
  watch_forks();
  session.policy = pages.policy;
  session.usage = pages.usage;
  session.slot = slot.slot;
  session.slot_generation = slot.generation;
  // Views must not show the program that this process was before exec().
  if (!with_slot) ledger::reap_former_program(*pages.usage);
  if (!with_slot) session.membership.store(Membership::member, std::memory_order_release);
}

// Checks that the environment agrees with the daemon about the share: otherwise the process would run with other limits
// than it expects.
bool contradicts(const Wanted& wanted, std::span<char> why) {
  bare::Text text(why);
  if (wanted.share_named && strcmp(wanted.grant.name, session.held.name) != 0) {
    text.add("HEADGATE_SHARE names the share ", wanted.grant.name, ", and HEADGATE_SHARE_DIR is of the share ",
             session.held.name);
    return true;
  }
  for (std::uint32_t i = 0; i < wanted.grant.device_count; ++i) {
    const ledger::DeviceGrant& asked = wanted.grant.devices[i];
    for (std::uint32_t j = 0; j < session.held.device_count; ++j) {
      const ledger::DeviceGrant& is = session.held.devices[j];
      if (strcmp(asked.uuid, is.uuid) != 0) continue;
      const bool memory =
          asked.memory_limit_bytes != ledger::kNoMemoryLimit && asked.memory_limit_bytes != is.memory_limit_bytes;
      const bool compute =
          asked.compute_ceiling_ppm != ledger::kWholeGpu && asked.compute_ceiling_ppm != is.compute_ceiling_ppm;
      if (!memory && !compute) continue;
      text.add("the environment asks for another ", memory ? "memory limit" : "compute ceiling", " on ", is.uuid,
               " than the daemon's share ", session.held.name, " has; leave it out to take the share's");
      return true;
    }
  }
  return false;
}

// Finds BASE of BASE/shares/NAME; empty if the directory is mounted under another name: then there is no GPU page.
void find_base(const char* directory) {
  constexpr std::string_view kMiddle = "/shares/";
  bare::Text base(session.base);
  const std::string_view path(directory);
  const std::size_t name = strlen(session.held.name);
  if (path.size() <= name + kMiddle.size()) return;
  const std::size_t at = path.size() - name - kMiddle.size();
  if (std::string_view(path.data() + at, kMiddle.size()) == kMiddle &&
      strcmp(directory + path.size() - name, session.held.name) == 0)
    base.add(std::string_view(path.data(), at));
}

// Returns why the share with these pages refuses this process; empty if it has a seat.
std::string_view take_seat_by_files(const ledger::SharePages& pages, ledger::SlotRef& slot) {
  // There is no daemon to ask.
  if (pages.policy->ask_first.load(std::memory_order_acquire) != 0)
    return "the share asks a scheduler about each process, and headgated, which would, does not answer";
  if (ledger::is_draining(*pages.policy)) return ledger::kDrainingWords;
  switch (ledger::claim_for_self(*pages.usage, slot)) {
    case ledger::ClaimResult::claimed: return {};
    case ledger::ClaimResult::full: return "every slot of the share is taken";
    case ledger::ClaimResult::closing: return "the share is being removed";
    case ledger::ClaimResult::unnamed: break;
  }
  return "this process cannot read /proc/self/stat: it has as many files open as it may; raise its limit (ulimit -n)";
}

// Returns whether opening the files failed because of this process, not the share: no descriptor, no memory, a seccomp
// filter.
bool is_own_failure(const ledger::PageFault& bad) {
  return bad.error == ledger::PageError::os_error ||
         (bad.error == ledger::PageError::no_permission && bad.os_errno == EPERM);
}

// Returns whether the directory exists without a share's socket or pages: a wrong path, or the empty directory that a
// container engine creates for a missing one. Nothing in it can enforce a limit.
bool is_no_share(const char* directory) {
  const auto is_absent = [directory](std::string_view file) {
    char path[512];
    bare::Text(path).add(directory).add(file);
    struct stat facts{};
    return ::syscall(SYS_newfstatat, AT_FDCWD, path, &facts, AT_SYMLINK_NOFOLLOW) != 0 &&
           (errno == ENOENT || errno == ENOTDIR);
  };
  return !is_absent("") && is_absent("/tenant.sock") && is_absent("/policy");
}

enum class Files { entered, refused, unusable };

// Enters without a daemon, through the files, if this process may open them.
Files enter_by_files(const char* directory, bool with_slot, ledger::SharePages& pages, ledger::SlotRef& slot,
                     std::span<char> why) {
  if (const ledger::PageFault bad = ledger::open_share_at(directory, pages)) {
    ledger::explain(bad, why.data(), why.size(), directory);
    return is_own_failure(bad) ? Files::refused : Files::unusable;
  }
  const std::string_view refusal = with_slot ? take_seat_by_files(pages, slot) : std::string_view();
  if (refusal.empty()) return Files::entered;
  bare::Text(why).add(refusal);
  ledger::close_pages(pages);
  return Files::refused;
}

// Joins a share of the daemon. If there is no runtime directory, or neither daemon nor pages are usable, the fail
// policy decides: closed if the share's directory or the environment says so. A failure of this process itself, or a
// share that has ended, is refused.
[[gnu::noinline]] Membership join_at(Wanted& wanted, bool with_slot) {
  char why[512];
  ledger::SharePages pages;
  ledger::SlotRef slot;
  const char* const directory = wanted.directory;
  const auto refuse_saying = [&] {
    bare::Text(wanted.message).add(directory).add(": ").add(why);
    return refuse(wanted.message);
  };
  switch (register_at(directory, with_slot, pages, slot, why)) {
    case Registered::seated: break;
    case Registered::refused: return refuse_saying();
    case Registered::unreachable: {
      if (is_no_share(directory)) {
        bare::Text(why).add(
            "no share lies here: there is neither tenant.sock nor policy; accepted: "
            "RUNTIME/shares/NAME of headgated, such as /run/headgate/shares/alice");
        return refuse_saying();
      }
      log_line(LogLevel::warn, "%s: %s; trying the share's files", directory, why);
      const Files files = enter_by_files(directory, with_slot, pages, slot, why);
      if (files == Files::entered) break;
      if (files == Files::refused || wanted.grant.fail_policy == ledger::FailPolicy::closed ||
          ledger::says_closed(directory))
        return refuse_saying();
      log_line(LogLevel::error, "NOT HELD: %s: no daemon, and %s; HEADGATE_FAIL_POLICY=closed would refuse to run",
               directory, why);
      session.membership.store(Membership::none, std::memory_order_release);
      return Membership::none;
    }
  }
  remember_names(*pages.policy, true);
  if (contradicts(wanted, why)) {
    if (with_slot) ledger::release(*pages.usage, slot);
    ledger::close_pages(pages);
    return refuse_saying();
  }
  find_base(directory);
  become_member(pages, slot, with_slot);
  for (std::uint32_t i = 0; with_slot && i < session.held.device_count; ++i) {
    const ledger::DevicePolicy& policy = session.policy->devices[i];
    if (policy.oversubscribed.load(std::memory_order_relaxed) != 0)
      say_oversubscribed(session.held.devices[i].uuid, policy.memory_limit_bytes, policy.host_limit_bytes);
  }
  return Membership::member;
}

// Creates or joins the share that the environment asks for; with_slot: also takes a seat.
Membership join(const SeenDevices& devices, bool with_slot) {
  Wanted wanted;
  read_environment_grant(devices, wanted);
  if (wanted.kind == EnvironmentGrant::nothing) {
    session.membership.store(Membership::none, std::memory_order_release);
    return Membership::none;
  }
  if (wanted.kind == EnvironmentGrant::unreadable) return refuse(wanted.message);
  if (wanted.directory[0] != '\0') return join_at(wanted, with_slot);
  char* const base = session.base;
  if (!ledger::runtime_directory(variable("HEADGATE_RUNTIME_DIR"), variable("XDG_RUNTIME_DIR"), base,
                                 sizeof session.base)) {
    return refuse("the runtime directory's path is too long; set HEADGATE_RUNTIME_DIR to one of at most 200 bytes");
  }
  ledger::SharePages pages;
  ledger::SlotRef slot;
  ledger::PageFault fault;
  const ledger::ShareGrant* grant = wanted.kind == EnvironmentGrant::values ? &wanted.grant : nullptr;
  const char* name = wanted.grant.name;
  if (with_slot) fault = ledger::enter_share(base, name, grant, pages, slot);
  else if (grant != nullptr) fault = ledger::create_or_join_share(base, *grant, ledger::Access::tenant, pages);
  else fault = ledger::open_share(base, name, ledger::Access::tenant, pages);
  if (fault) {
    char* const why = wanted.message;
    bare::Text text(wanted.message);
    text.add("share ").add(name).add(": ");
    ledger::explain(fault, why + text.size(), sizeof wanted.message - text.size(), base);
    return refuse(why);
  }
  remember_names(*pages.policy, false);
  become_member(pages, slot, with_slot);
  return Membership::member;
}

void map_ordinals(const SeenDevices& devices) {
  for (std::uint32_t& index : session.device_index) index = kNoDevice;
  for (std::uint32_t i = 0; i < devices.count; ++i) {
    session.device_index[i] = page_index_of(devices.list[i].uuid);
  }
  session.device_count = devices.count;
}

// The driver works but cannot identify its GPUs: a process with a grant must not run there without limits.
[[gnu::noinline]] abi::CUresult without_names(abi::CUresult error) {
  Wanted wanted;
  read_environment_grant({}, wanted);
  if (wanted.kind == EnvironmentGrant::nothing) {
    session.membership.store(Membership::none, std::memory_order_release);
    return abi::CUDA_SUCCESS;
  }
  char why[96];
  bare::Text(why).add("the driver does not name its GPUs: error ").add_decimal(error);
  refuse(why);
  return kRefused;
}

abi::CUresult open_with_slot() {
  if (has_slot.load(std::memory_order_acquire)) return abi::CUDA_SUCCESS;
  Membership membership = session.membership.load(std::memory_order_acquire);
  if (membership == Membership::refused) return kRefused;
  if (membership == Membership::none) return abi::CUDA_SUCCESS;
  SeenDevices devices;
  abi::CUresult error = abi::CUDA_SUCCESS;
  if (!devices_by_cuda(devices, error)) {
    const bool unusable = error == abi::CUDA_ERROR_NOT_INITIALIZED || error == abi::CUDA_ERROR_DEINITIALIZED;
    return unusable ? abi::CUDA_SUCCESS
                    : without_names(error);  // unusable: nothing can be allocated; tried again later
  }
  membership = join(devices, true);
  if (membership == Membership::refused) return kRefused;
  if (membership == Membership::none) return abi::CUDA_SUCCESS;
  map_ordinals(devices);
  session.membership.store(Membership::member, std::memory_order_release);
  has_slot.store(true, std::memory_order_release);
  log_line(LogLevel::info, "share %s, slot %u, %u GPU(s)", session.held.name, session.slot, session.device_count);
  return abi::CUDA_SUCCESS;
}

}  // namespace

void session_reset_after_fork() {
  has_slot.store(false, std::memory_order_relaxed);
  opening.store(0, std::memory_order_relaxed);
  opening_here = false;
  const Membership was = session.membership.exchange(Membership::unopened, std::memory_order_relaxed);
  if (was == Membership::member) parent_had_views.store(true, std::memory_order_relaxed);
  session.slot = ledger::kNoSlot;
  session.slot_generation = 0;
  session.device_count = 0;
  for (std::uint32_t& index : session.device_index) index = kNoDevice;
  session.policy = nullptr;
  session.usage = nullptr;
}

bool seated() { return has_slot.load(std::memory_order_acquire); }

ledger::SlotRef own_slot() { return {session.slot, session.slot_generation}; }

abi::CUresult open_session() {
  if (seated() || opening_here) return abi::CUDA_SUCCESS;
  const bare::KeepErrno keep_errno;
  const Opening one_at_a_time;
  return open_with_slot();
}

abi::nvmlReturn_t open_session_for_views() {
  if (opening_here) return abi::NVML_SUCCESS;
  if (session.membership.load(std::memory_order_acquire) == Membership::unopened) {
    const bare::KeepErrno keep_errno;
    const Opening one_at_a_time;
    SeenDevices devices;
    if (session.membership.load(std::memory_order_acquire) == Membership::unopened &&
        devices_by_nvml(variable("CUDA_VISIBLE_DEVICES"), devices))
      join(devices, false);
  }
  return session.membership.load(std::memory_order_acquire) == Membership::refused ? abi::NVML_ERROR_NO_PERMISSION
                                                                                   : abi::NVML_SUCCESS;
}

void open_session_by_directory() {
  if (opening_here || session.membership.load(std::memory_order_acquire) != Membership::unopened) return;
  if (!names_directory()) return;
  const bare::KeepErrno keep_errno;
  const Opening one_at_a_time;
  Wanted wanted;
  read_environment_grant({}, wanted);
  const bool readable = wanted.kind == EnvironmentGrant::join || wanted.kind == EnvironmentGrant::values;
  if (session.membership.load(std::memory_order_acquire) == Membership::unopened && readable &&
      wanted.directory[0] != '\0')
    join_at(wanted, false);
}

// Cached: a process cannot change its pid namespace. A forked child in another one inherits this value until exec,
// which starts over.
std::uint32_t own_namespace() {
  static std::atomic<std::uint64_t> known{0};
  std::uint64_t value = known.load(std::memory_order_relaxed);
  if (value == 0) {
    const bare::KeepErrno keep_errno;
    value = (1ull << 32) | ledger::own_identity().pidns_inode;
    known.store(value, std::memory_order_relaxed);
  }
  return static_cast<std::uint32_t>(value);
}

Place place_of(abi::CUdevice device) {
  arrive();
  Place place;
  place.device = device;
  if (!seated()) {
    const Membership membership = session.membership.load(std::memory_order_acquire);
    if (membership == Membership::none) return place;
    if (membership == Membership::refused || open_session() != abi::CUDA_SUCCESS) {
      place.standing = Standing::outside;
      return place;
    }
    if (!seated()) return place;
  }
  const auto ordinal = static_cast<std::uint32_t>(device);
  const std::uint32_t index = ordinal < session.device_count ? session.device_index[ordinal] : kNoDevice;
  place.standing = index == kNoDevice ? Standing::outside : Standing::held;
  place.device_index = index;
  return place;
}

Place current_place() {
  if (session.membership.load(std::memory_order_acquire) == Membership::none) return {};
  Current current;
  switch (current_context(current)) {
    case abi::CUDA_SUCCESS: return place_of(current.device);
    // The driver answers every request with an error.
    case abi::CUDA_ERROR_INVALID_CONTEXT:
    case abi::CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case abi::CUDA_ERROR_NOT_INITIALIZED:
    case abi::CUDA_ERROR_DEINITIALIZED: return {};
    default: return {.standing = seated() ? Standing::unknown : Standing::free};
  }
}

bool sees_share() {
  Membership membership = session.membership.load(std::memory_order_acquire);
  if (membership == Membership::unopened && parent_had_views.load(std::memory_order_relaxed)) {
    open_session_for_views();
    membership = session.membership.load(std::memory_order_acquire);
  }
  return membership == Membership::member;
}

std::uint32_t nvml_device_index(abi::nvmlDevice_t device) {
  if (!sees_share()) return kNoDevice;
  char uuid[ledger::kUuidBytes];
  if (forward(nvml.nvmlDeviceGetUUID, device, uuid, static_cast<unsigned>(sizeof uuid)) != abi::NVML_SUCCESS) {
    return kNoDevice;
  }
  return page_index_of(uuid);
}

}  // namespace headgate::limiter
