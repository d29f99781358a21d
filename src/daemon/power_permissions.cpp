#include "daemon/power_permissions.hpp"

#include <filesystem>

#include "base/user_name.hpp"
#include "identity/process.hpp"

namespace headgate::daemon {
namespace {

constexpr std::uint32_t kOverflowUid = 65'534;  // the kernel's uid for a user without a number here

// Root of a container has uid 0 too. A socket that is mounted there must not make it an administrator.
bool is_root_of_the_host(const http::Peer& peer) {
  if (peer.uid != 0 || peer.pid <= 0) return false;
  std::error_code theirs, ours;
  namespace fs = std::filesystem;
  const auto of_peer = fs::read_symlink("/proc/" + std::to_string(peer.pid) + "/ns/pid", theirs);
  const auto of_us = fs::read_symlink("/proc/self/ns/pid", ours);
  return !theirs && !ours && of_peer == of_us;
}

}  // namespace

power::Writer PowerPermissions::writer_of(const api::ZeusdCaller& caller) const {
  power::Writer writer;
  writer.user = caller.user.value_or("");
  if (!caller.peer.is_unix) {
    // Only a process that can read the signing key can sign a token for root.
    writer.administrator = writer.user == "root";
    return writer;
  }
  const auto now = access_.now();
  // Root of a container owns nothing that root of the host owns.
  if (caller.peer.uid == 0 && !is_root_of_the_host(caller.peer)) {
    writer.uid = kOverflowUid;
    return writer;
  }
  writer.uid = caller.peer.user.value_or(caller.peer.uid);
  writer.gids.assign(caller.peer.groups.begin(), caller.peer.groups.end());
  writer.gids.push_back(caller.peer.gid);
  writer.administrator = caller.peer.uid == 0 || caller.peer.uid == now->daemon_uid ||
                         (now->admin_gid && caller.peer.in_group(*now->admin_gid));
  return writer;
}

// `with_names`: adds the owners' names, which may block on a directory service.
power::GpuUse PowerPermissions::use_of(std::uint32_t gpu, bool with_names) const {
  power::GpuUse use{.index = gpu, .uuid = queues_.gpu(gpu).identity().uuid, .owners = {}};
  for (const auto& [name, live] : node_.shares().list()) {
    if (device_on(live.share, use.uuid) == nullptr) continue;
    const std::uint32_t uid = live.share.owner_uid;
    use.owners.push_back({uid, with_names ? user_name(uid) : ""});
  }
  return use;
}

// Checks that no other user's lease has that control.
Result<void> PowerPermissions::is_free(std::uint32_t gpu, const power::Command& command,
                                       std::optional<std::uint32_t> uid) const {
  const auto lease = leases_.holder_of(queues_.gpu(gpu).identity().uuid, command);
  if (!lease || uid == lease->owner_uid) return {};
  return fail(ErrorCode::denied, "GPU " + std::to_string(gpu) + ": this setting is held by " + describe(*lease),
              "wait for its end; an administrator can end it: headgate power end " + lease->id);
}

Result<void> PowerPermissions::may_write(const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& gpus,
                                         const power::Command& command) const {
  const power::Writer writer = writer_of(caller);
  for (const std::uint32_t gpu : gpus) {
    const power::GpuUse use = use_of(gpu, !writer.uid);
    TRY(power::may_write(writer, use, command, grants_));
    TRY(is_free(gpu, command, writer.uid));
  }
  return {};
}

// Checks that the caller may wait for the end of that process.
Result<void> PowerPermissions::may_hold(const node::Caller& caller, std::uint32_t pid) {
  const auto holder = TRY(identity::read_process("/proc", pid));
  if (caller.administrator || holder.uid == caller.uid) return {};
  return fail(ErrorCode::denied, "process " + std::to_string(pid) + " is not yours",
              "name one of your own processes, or a ttl_s");
}

// Checks each of the settings on each of the GPUs.
Result<void> PowerPermissions::may_set(const http::Peer& peer, const node::Caller& caller,
                                       const power::SettingsByGpu& settings, bool by_lease) const {
  const power::Writer writer = writer_of({.peer = peer, .user = {}});
  for (std::uint32_t gpu = 0; gpu < queues_.count(); ++gpu) {
    const auto found = settings.find(queues_.gpu(gpu).identity().uuid);
    if (found == settings.end()) continue;
    for (const power::Command& command : power::commands_to_apply(found->second)) {
      if (!caller.administrator) TRY(power::may_write(writer, use_of(gpu, false), command, grants_));
      if (by_lease) continue;
      TRY(is_free(gpu, command, caller.uid));
    }
  }
  return {};
}

bool PowerPermissions::reads_live(const api::ZeusdCaller& caller, std::optional<std::uint32_t> gpu) const {
  const power::Writer writer = writer_of(caller);
  return writer.administrator || (gpu && power::owns_all(writer, use_of(*gpu, !writer.uid)));
}

}  // namespace headgate::daemon
