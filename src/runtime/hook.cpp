#include "runtime/hook.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/bounded_command.hpp"
#include "base/unique_fd.hpp"
#include "base/utf8.hpp"
#include "oci/cdi_document.hpp"
#include "oci/json_text.hpp"
#include "oci/share_device.hpp"
#include "runtime/entry_check.hpp"
#include "runtime/node_facts.hpp"
#include "runtime/report.hpp"
#include "runtime/share_files.hpp"

namespace headgate::runtime {
namespace {

constexpr std::size_t kMaxState = (1 << 20) + 1;  // one more than is accepted

Result<void> run_nvidias_hook(const HookCall& call, std::string_view state) {
  const std::string program = program_on_path(std::string(kNvidiasHook), true);
  if (program.empty())
    return fail(ErrorCode::not_found, "there is no " + std::string(kNvidiasHook) + " of NVIDIA's on PATH",
                "install NVIDIA's container toolkit: without it the container has no GPU");
  BoundedCommand command{
      .words = {program}, .input = std::string(state), .timeout = call.patience, .shows_output = true};
  command.words.insert(command.words.end(), call.words.begin(), call.words.end());
  const CommandOutcome outcome = TRY(run_bounded(command));
  if (outcome.timed_out)
    return fail(ErrorCode::failed,
                "NVIDIA's hook did not end within " + std::to_string(call.patience.count() / 1000) + " s",
                "nvidia-container-cli info says what the driver answers");
  if (outcome.status == 0) return {};
  const int status = WIFEXITED(outcome.status) ? WEXITSTATUS(outcome.status) : 128 + WTERMSIG(outcome.status);
  return fail(ErrorCode::failed, "NVIDIA's hook failed with status " + std::to_string(status),
              "what it said stands before this");
}

UniqueFd open_in_root(int root, const std::string& path, int flags, mode_t mode = 0) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

struct Source {
  UniqueFd tree;  // a detached mount
  bool is_directory = false;
  std::string to;
};

Result<Source> source_of(const oci::Mount& mount) {
  Source source;
  source.to = mount.container_path;
  source.tree = UniqueFd(::open_tree(AT_FDCWD, mount.host_path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  struct stat facts{};
  if (!source.tree || ::fstat(source.tree.get(), &facts) != 0)
    return fail_errno("cannot bind " + printable(mount.host_path), errno);
  source.is_directory = S_ISDIR(facts.st_mode);
  mount_attr attributes{};
  const auto has = [&](const char* option) { return std::ranges::find(mount.options, option) != mount.options.end(); };
  if (has("ro")) attributes.attr_set |= MOUNT_ATTR_RDONLY;
  if (has("noexec")) attributes.attr_set |= MOUNT_ATTR_NOEXEC;
  if (has("nosuid")) attributes.attr_set |= MOUNT_ATTR_NOSUID;
  if (has("nodev")) attributes.attr_set |= MOUNT_ATTR_NODEV;
  if (::mount_setattr(source.tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0)
    return fail_errno("cannot bind " + printable(mount.host_path), errno);
  return source;
}

// Opens the mount point, creating it if missing; an image's links are resolved inside its root.
Result<UniqueFd> place_of(int root, const Source& source) {
  std::string step;
  for (const auto& part : std::filesystem::path(source.to).parent_path().relative_path()) {
    const UniqueFd parent = open_in_root(root, "/" + step, O_PATH | O_DIRECTORY);
    if (parent) ::mkdirat(parent.get(), part.c_str(), 0755);
    step += (step.empty() ? "" : "/") + part.string();
  }
  const UniqueFd parent = open_in_root(root, "/" + step, O_PATH | O_DIRECTORY);
  const std::string name = std::filesystem::path(source.to).filename().string();
  if (parent && source.is_directory) ::mkdirat(parent.get(), name.c_str(), 0755);
  else if (parent) UniqueFd(::openat(parent.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  UniqueFd place = open_in_root(root, source.to, O_PATH);
  if (!place) return fail_errno("cannot make " + printable(source.to) + " in the container", errno);
  return place;
}

bool is_same(int fd, const struct stat& other) {
  struct stat facts{};
  return ::fstat(fd, &facts) == 0 && facts.st_dev == other.st_dev && facts.st_ino == other.st_ino;
}

// Binds each of `mounts` (of their options, only ro, noexec, nosuid and nodev count) into the mount namespace of `pid`,
// below the container's root: `root` on the host, or already the namespace's root. Leaves this process in that
// namespace. The kernel requires CAP_SYS_ADMIN in the owning user namespace, so pids of foreign user namespaces are
// refused.
Result<void> mount_into(pid_t pid, const std::string& root, const std::vector<oci::Mount>& mounts) {
  struct stat wanted{};
  if (::stat(root.c_str(), &wanted) != 0)
    return fail_errno("cannot look at the container's root " + printable(root), errno);
  std::vector<Source> sources;
  for (const oci::Mount& mount : mounts) sources.push_back(TRY(source_of(mount)));
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/mnt";
  const UniqueFd space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!space || ::setns(space.get(), CLONE_NEWNS) != 0)
    return fail_errno("cannot enter the mount namespace of process " + std::to_string(pid), errno,
                      "its user namespace must be the caller's own");
  // runc calls hooks before it pivots into the container's root, crun after.
  UniqueFd at(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at || !is_same(at.get(), wanted)) at = UniqueFd(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at || !is_same(at.get(), wanted))
    return fail(ErrorCode::not_found,
                "process " + std::to_string(pid) + " does not see the container's root " + printable(root));
  for (const Source& source : sources) {
    const UniqueFd place = TRY(place_of(at.get(), source));
    if (::move_mount(source.tree.get(), "", place.get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
      return fail_errno("cannot mount " + printable(source.to) + " in the container", errno);
  }
  return {};
}

}  // namespace

Result<ContainerState> read_state(std::string_view text) {
  const auto wrong = [](const std::string& what) { return fail(ErrorCode::usage, "the container's state " + what); };
  const auto json = oci::parse_json(text, {.bytes = 1 << 20, .depth = 16});
  if (!json) return wrong(json.error().message);
  if (!json->is_object()) return wrong("is no object");
  ContainerState state;
  for (const auto& [key, out] : {std::pair("id", &state.id), std::pair("bundle", &state.bundle)}) {
    if (!json->contains(key) || !(*json)[key].is_string()) return wrong(std::string("has no text '") + key + "'");
    *out = (*json)[key].get<std::string>();
  }
  if (!state.bundle.starts_with('/')) return wrong("names no bundle");
  const auto pid = json->find("pid");
  if (pid == json->end() || !pid->is_number_unsigned() ||
      pid->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max()) || *pid < 2)
    return wrong("has no pid of a process");
  state.pid = pid->get<pid_t>();
  return state;
}

Result<void> run_hook(std::string_view text, const HookCall& call) {
  const ContainerState state = TRY(read_state(text));
  const Settings settings = read_settings(call.configuration);
  const Bundle bundle = TRY(Bundle::open(state.bundle));
  const oci::ContainerConfig config = TRY(bundle.config());
  const oci::ShareChoice choice = TRY(oci::choose_share(config, settings.rules));
  if (call.as_nvidias && choice.by != oci::AskedBy::device_request && oci::has_gpu(config, false))
    TRY(run_nvidias_hook(call, text));
  if (choice.share.empty() || choice.by == oci::AskedBy::engine) return {};
  const oci::Document document = TRY(share_document_of(choice.share, settings));
  if (const std::string warning = TRY(check_entry(oci::share_directory_of(document), config)); !warning.empty())
    report({}, Severity::warning, "headgate: " + warning);
  const oci::Edits& edits = document.devices.front().edits;
  const bool brings_gpus = choice.by == oci::AskedBy::device_request;
  if (brings_gpus && !edits.device_nodes.empty())
    return fail(ErrorCode::unsupported,
                "as a hook, headgate-oci cannot give the container the GPU of the share '" + choice.share + "'",
                "use it as the runtime: headgate runtime configure --docker");
  const PreloadChoice list = TRY(choose_preload_list(settings, document, bundle, config));
  std::vector<oci::Mount> mounts;
  for (oci::Mount mount : edits.mounts) {
    const bool is_list = mount.container_path == "/etc/ld.so.preload";
    const bool is_ours =
        is_list || mount.container_path == oci::kMountedShare || mount.container_path == oci::kMountedLimiter;
    if (!is_ours && !brings_gpus) continue;  // NVIDIA's hook mounts the driver
    if (is_list && list.kind == PreloadChoice::Kind::none) continue;
    if (is_list && list.kind == PreloadChoice::Kind::merged) mount.host_path = list.path;
    mounts.push_back(std::move(mount));
  }
  if (!list.warning.empty()) report({}, Severity::warning, "headgate: " + list.warning);
  return mount_into(state.pid, root_of(bundle, config), mounts);
}

int hook_main(const HookCall& call) {
  std::string state(kMaxState, '\0');
  std::cin.read(state.data(), static_cast<std::streamsize>(state.size()));
  state.resize(static_cast<std::size_t>(std::cin.gcount()));
  const auto done = run_hook(state, call);
  if (done) return 0;
  report({}, Severity::error, sentence(done.error()));
  return 1;
}

}  // namespace headgate::runtime
