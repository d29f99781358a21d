#include "runtime/hook.hpp"

#include <sys/wait.h>

#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/bounded_command.hpp"
#include "oci/json_text.hpp"
#include "oci/share_device.hpp"
#include "runtime/entry_check.hpp"
#include "runtime/mount_into.hpp"
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
