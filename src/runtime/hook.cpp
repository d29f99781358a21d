#include "runtime/hook.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>

#include "base/unique_fd.hpp"
#include "base/utf8.hpp"
#include "base/write_all.hpp"
#include "oci/share_device.hpp"
#include "runtime/entry_check.hpp"
#include "runtime/mount_into.hpp"
#include "runtime/node_facts.hpp"
#include "runtime/report.hpp"
#include "runtime/share_files.hpp"
#include "runtime/state.hpp"

namespace headgate::runtime {
namespace {

constexpr std::size_t kMaxState = (1 << 20) + 1;  // one more than is accepted

// Its exit status, or why there is none.
Result<int> status_of(pid_t child, std::chrono::milliseconds patience) {
  const UniqueFd watched(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd ends{.fd = watched.get(), .events = POLLIN, .revents = 0};
  const bool ended = watched && ::poll(&ends, 1, static_cast<int>(patience.count())) == 1;
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended)
    return fail(ErrorCode::failed, "NVIDIA's hook did not end within " + std::to_string(patience.count() / 1000) + " s",
                "nvidia-container-cli info says what the driver answers");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<void> run_nvidias_hook(const HookCall& call, std::string_view state) {
  const std::string program = program_on_path(std::string(kNvidiasHook), true);
  if (program.empty())
    return fail(ErrorCode::not_found, "there is no " + std::string(kNvidiasHook) + " of NVIDIA's on PATH",
                "install NVIDIA's container toolkit: without it the container has no GPU");
  const UniqueFd input(::memfd_create("state", MFD_CLOEXEC));
  if (!input || write_all(input.get(), state) != 0 || ::lseek(input.get(), 0, SEEK_SET) != 0)
    return fail_errno("cannot keep the container's state", errno);
  std::vector<char*> all = {const_cast<char*>(program.c_str())};
  for (const std::string& each : call.words) all.push_back(const_cast<char*>(each.c_str()));
  all.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, all.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail_errno("cannot execute " + printable(program), error);
  const int status = TRY(status_of(child, call.patience));
  if (status == 0) return {};
  return fail(ErrorCode::failed, "NVIDIA's hook failed with status " + std::to_string(status),
              "what it said stands before this");
}

}  // namespace

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
