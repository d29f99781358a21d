#include "guest/limiter/session/environment_grant.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/scratch.hpp"
#include "guest/bare/text.hpp"
#include "guest/grant/select.hpp"
#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {
namespace {

constexpr char kDefaultShare[] = "default";

// Where a container's creator mounts the directory of its share. A process inside is in that share, whatever its
// environment says.
constexpr char kMountedShare[] = "/run/headgate/share";

bool is_mounted() {
  const bare::KeepErrno keep_errno;
  if (::access("/run/headgate/share/tenant.sock", F_OK) == 0 || ::access("/run/headgate/share/fail-policy", F_OK) == 0)
    return true;
  // A removed share stays mounted as an empty directory without links: processes there were in that share.
  struct stat status{};
  return ::syscall(SYS_newfstatat, AT_FDCWD, kMountedShare, &status, 0) == 0 && status.st_nlink == 0;
}

void copy_name(std::string_view from, char (&to)[ledger::kNameBytes]) {
  bare::Text text(to);
  text.add(from);
}

// Chooses the visible devices that the share covers: those of HEADGATE_GPU, else all; none if they are not known yet.
// Returns false with out.message set.
bool choose(std::string_view selector, const SeenDevices& devices, grant::Selection& chosen, Wanted& out) {
  if (selector.empty() || devices.count == 0) {
    chosen.count = devices.count;
    for (std::uint32_t i = 0; i < devices.count; ++i) chosen.index[i] = static_cast<std::uint8_t>(i);
    return true;
  }
  grant::Candidate candidates[ledger::kMaxDevices];
  for (std::uint32_t i = 0; i < devices.count; ++i) {
    candidates[i].uuid = devices.list[i].uuid;
    candidates[i].free_bytes = devices.list[i].total_bytes;
  }
  chosen = grant::select(selector, {candidates, devices.count});
  if (chosen) return true;
  bare::Text(out.message)
      .add("HEADGATE_GPU='", selector, "': '", chosen.token, "' ", grant::describe(chosen.fault),
           "; accepted: ", grant::accepted_selectors());
  return false;
}

bool says_values(const grant::Grant& grant, const grant::Selection& chosen) {
  if (!grant.gpu.empty()) return true;
  for (std::uint32_t i = 0; i < chosen.count; ++i) {
    const grant::DeviceGrant& device = grant.devices[chosen.index[i]];
    if (device.memory.said() || device.host_memory.said() || device.ceiling_ppm != 0 || device.ceiling_megaflops != 0)
      return true;
  }
  return false;
}

void fill_device(const grant::DeviceGrant& wanted, bool compute_off, const SeenDevice& seen, ledger::DeviceGrant& out) {
  memcpy(out.uuid, seen.uuid, sizeof out.uuid);
  if (wanted.memory.said()) {
    const grant::MemorySplit memory = grant::split_memory(wanted, seen.total_bytes);
    out.memory_limit_bytes = memory.card_bytes;
    out.host_limit_bytes = memory.host_bytes;
    out.oversubscribed = memory.host_bytes != 0;
  }
  if (wanted.host_memory.said()) out.host_limit_bytes = wanted.host_memory.on(seen.total_bytes);
  if (wanted.ceiling_ppm != 0 && !compute_off) out.compute_ceiling_ppm = wanted.ceiling_ppm;
  if (wanted.soft_ppm > out.compute_ceiling_ppm) out.compute_burst_ppm = wanted.soft_ppm;
}

// Reads with all GPUs that NVML shows as `present`; if it shows none, without that list.
[[gnu::noinline]] void read_beside_all(char** environment, std::span<const std::string_view> visible,
                                       grant::Reading& reading) {
  const bare::Scratch<SeenDevices> all;
  if (!all || !all_devices(*all)) {
    if (variable("CUDA_VISIBLE_DEVICES") != nullptr) reading = grant::read_environment(environment, visible);
    return;
  }
  std::string_view present[ledger::kMaxDevices];
  for (std::uint32_t i = 0; i < (*all).count; ++i) present[i] = (*all).list[i].uuid;
  reading = grant::read_environment(environment, visible, {present, (*all).count});
}

// Refuses a limit that names no visible GPU only if it names no GPU at all: it may be for another process of the
// container.
grant::Reading read_for(char** environment, std::span<const std::string_view> visible) {
  grant::Reading reading = grant::read_environment(environment, visible, visible);
  if (reading.refusal.fault == grant::Fault::no_such_gpu) read_beside_all(environment, visible, reading);
  return reading;
}

// Checks what cannot be decided from the text alone. Returns true if it is valid.
[[gnu::noinline]] bool judge(grant::DeviceGrant& wanted, const SeenDevice& seen, Wanted& out) {
  grant::Refusal refusal = grant::check_memory(wanted, seen.total_bytes);
  if (!refusal && wanted.ceiling_megaflops != 0) refusal = grant::resolve_flops(wanted, model_of(seen.uuid).name);
  if (!refusal) refusal = grant::check_burst(wanted);
  if (refusal) grant::describe(refusal, out.message);
  return !refusal;
}

}  // namespace

void say_oversubscribed(const char* uuid, std::uint64_t card_bytes, std::uint64_t host_bytes) {
  log_line(LogLevel::warn,
           "the memory limit is oversubscribed: %lu MiB of it on %s, and %lu MiB of host memory behind it",
           static_cast<unsigned long>(card_bytes >> 20), uuid, static_cast<unsigned long>(host_bytes >> 20));
}

bool names_directory() { return variable("HEADGATE_SHARE_DIR") != nullptr || is_mounted(); }

const char* variable(const char* name) { return ::getauxval(AT_SECURE) != 0 ? nullptr : ::getenv(name); }

void read_environment_grant(const SeenDevices& devices, Wanted& out) {
  out.kind = EnvironmentGrant::nothing;
  // In a program with raised privileges the environment does not count. A mounted share does: only root can mount it.
  const bool secure = ::getauxval(AT_SECURE) != 0;
  const bool mounted = is_mounted();
  if ((secure || environ == nullptr) && !mounted) return;
  char* nothing[] = {nullptr};
  std::string_view uuids[ledger::kMaxDevices];
  for (std::uint32_t i = 0; i < devices.count; ++i) uuids[i] = devices.list[i].uuid;
  const grant::Reading reading = read_for(secure || environ == nullptr ? nothing : environ, {uuids, devices.count});
  const grant::Grant& grant = reading.grant;
  // Set the file first, so that it also receives refusals.
  if (const char* const file = variable("HEADGATE_LOG_FILE"); file != nullptr && *file == '/' && strlen(file) <= 255)
    set_log_file(file);
  if (reading.refusal) {
    out.kind = EnvironmentGrant::unreadable;
    grant::describe(reading.refusal, out.message);
    return;
  }
  if (grant.log_said) set_log_level(static_cast<LogLevel>(grant.log), grant.log_infos);
  const std::string_view directory = mounted ? std::string_view(kMountedShare) : grant.share_dir;
  // A tenant cannot opt out of a share of the daemon; only its owner can release it.
  if (directory.empty() && (!grant.asks || grant.opted_out)) return;
  grant::Selection chosen;
  out.kind = EnvironmentGrant::unreadable;
  if (!choose(grant.gpu, devices, chosen, out)) return;
  copy_name(grant.share.empty() ? std::string_view(kDefaultShare) : grant.share, out.grant.name);
  out.share_named = !grant.share.empty();
  bare::Text(out.directory).add(directory);
  out.grant.device_count = chosen.count;
  out.grant.level = ledger::Level::hook;
  out.grant.fail_policy = grant.fail_closed ? ledger::FailPolicy::closed : ledger::FailPolicy::open;
  for (std::uint32_t i = 0; i < chosen.count; ++i) {
    grant::DeviceGrant wanted = grant.devices[chosen.index[i]];
    SeenDevice seen = devices.list[chosen.index[i]];
    if (wanted.memory.ppm != 0 || wanted.host_memory.ppm != 0 || wanted.memory.bytes > seen.total_bytes) {
      if (const std::uint64_t whole = nvml_total_bytes(seen.uuid); whole != 0) seen.total_bytes = whole;
    }
    if (!judge(wanted, seen, out)) return;
    fill_device(wanted, grant.compute_off, seen, out.grant.devices[i]);
    const ledger::DeviceGrant& device = out.grant.devices[i];
    if (device.oversubscribed) say_oversubscribed(device.uuid, device.memory_limit_bytes, device.host_limit_bytes);
  }
  out.kind = says_values(grant, chosen) ? EnvironmentGrant::values : EnvironmentGrant::join;
}

}  // namespace headgate::limiter
