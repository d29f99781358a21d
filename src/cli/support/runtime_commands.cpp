// `headgate runtime configure` and `unconfigure`: registers headgate-oci as a runtime of a container engine.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/json.hpp"
#include "base/split.hpp"
#include "base/whole_file.hpp"
#include "cli/commands.hpp"
#include "cli/support/engine_settings.hpp"
#include "cli/term/output.hpp"
#include "install/paths.hpp"
#include "oci/json_text.hpp"

namespace headgate::cli {
namespace {

constexpr const char* kDockerFile = "/etc/docker/daemon.json";
constexpr const char* kPodmanFile = "/etc/containers/containers.conf.d/headgate.conf";
constexpr std::size_t kMaxSettings = 1 << 20;

struct EngineChoice {
  bool docker = false, podman = false, containerd = false, crio = false;
  std::string file;  // instead of the engine's default
  bool yes = false;  // do not ask
};

struct SettingsChange {
  std::string path, before, after;
  bool is_there = false;
  mode_t mode = 0644;
};

Result<SettingsChange> settings_change(const EngineChoice& choice, bool adds) {
  SettingsChange change;
  change.path = !choice.file.empty() ? choice.file : choice.docker ? kDockerFile : kPodmanFile;
  if (::access(change.path.c_str(), F_OK) == 0) {
    const WholeFile file = TRY(read_whole_file(change.path, kMaxSettings));
    change.before = file.text, change.is_there = true, change.mode = file.facts.st_mode & 07777u;
  }
  const std::string program = TRY(install::runtime_program());
  if (choice.podman) {
    change.after = adds ? podman_drop_in(program) : std::string();
    return change;
  }
  auto after = adds ? with_docker_runtime(change.before, program) : without_docker_runtime(change.before);
  if (!after) return fail(after.error().code, harmless(change.path) + ": " + after.error().message, after.error().hint);
  change.after = std::move(*after);
  return change;
}

// A random suffix, because another command may be replacing the same file.
Result<void> write_settings(const std::string& path, std::string_view text, mode_t mode) {
  const std::string beside = path + ".new-" + std::to_string(std::random_device{}());
  return replace_whole_file(path, text, {.mode = mode, .beside = beside, .shown = harmless(path)});
}

Result<void> make_change(const SettingsChange& change) {
  const std::string folder = std::filesystem::path(change.path).parent_path().string();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return fail_errno("cannot make the directory '" + harmless(folder) + "'", error.value());
  if (change.is_there) TRY(write_settings(change.path + ".before-headgate", change.before, change.mode));
  if (change.after.empty()) {
    if (::unlink(change.path.c_str()) != 0) return fail_errno("cannot remove '" + harmless(change.path) + "'", errno);
    return {};
  }
  return write_settings(change.path, change.after, change.mode);
}

Result<std::string> configure_engine(const EngineChoice& choice, bool adds) {
  const SettingsChange change = TRY(settings_change(choice, adds));
  const std::string shown = harmless(change.path);
  if (change.after == change.before) return shown + " needs no change\n";
  std::string text = shown + ":\n";
  for (const std::string& line : line_diff(change.before, change.after)) text += harmless(line) + "\n";
  TRY(show(text));
  if (!choice.yes && !can_ask())
    return fail(ErrorCode::usage, "nothing was changed", "--yes changes it without asking");
  if (!choice.yes && ask_user("change it?") != Answer::yes) return std::string("nothing was changed\n");
  TRY(make_change(change));
  text = change.is_there ? "the former file is " + shown + ".before-headgate\n" : "";
  if (choice.docker)
    return text +
           (adds ? "restart dockerd; then: docker run --runtime headgate --annotation headgate.io/share=NAME ...\n"
                 : "restart dockerd; CDI stays enabled\n");
  return text + (adds ? "podman --runtime headgate run --annotation headgate.io/share=NAME ...\n" : "");
}

// Shows the change and asks, keeps a backup of the file, and says what to restart. For containerd and CRI-O, only shows
// what to add.
Result<int> runtime_command(const Call& call, const EngineChoice& choice) {
  if (choice.docker + choice.podman + choice.containerd + choice.crio != 1)
    return fail(ErrorCode::usage, call.command + " needs one engine", "--docker, --podman, --containerd or --crio");
  const bool adds = call.command == "runtime configure";
  if (!choice.containerd && !choice.crio) return show(configure_engine(choice, adds));
  const std::string program = TRY(install::runtime_program());
  return show((adds ? "" : "remove these lines, where they are:\n") +
              (choice.containerd ? containerd_lines(program) : crio_lines(program)));
}

void add_engine_options(Options& options, EngineChoice& engine) {
  options.flag("--docker", "/etc/docker/daemon.json; dockerd has to be restarted", engine.docker);
  options.flag("--podman", "a file in /etc/containers/containers.conf.d", engine.podman);
  options.flag("--containerd", "show the lines for its config.toml", engine.containerd);
  options.flag("--crio", "show the lines for its crio.conf.d", engine.crio);
  options.text("--file", "FILE", "another file than the usual one", engine.file);
  options.flag("-y,--yes", "do not ask", engine.yes);
}

using Json = nlohmann::ordered_json;

constexpr std::size_t kContext = 3;

// Parsed twice: once for limits and duplicate fields, then again to keep the key order.
Result<Json> docker_settings(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return Json::object();
  if (const auto sound = oci::parse_json(text, {.bytes = 1 << 20, .depth = 32}); !sound)
    return fail(ErrorCode::usage, sound.error().message, "put it right first: dockerd does not start with it either");
  Json json = parse_json(text);
  for (const char* part : {"", "/runtimes", "/features"}) {
    const Json::json_pointer at(part);
    if (json.contains(at) && !json[at].is_object())
      return fail(ErrorCode::usage, (*part == '\0' ? std::string("it") : std::string(part + 1)) + " is no object",
                  "put it right first: dockerd does not start with it either");
  }
  return json;
}

std::string text_of_settings(const Json& json, std::string_view like) {
  const int indent = like.contains("\n  \"") ? 2 : like.contains("\n\t\"") ? 1 : 4;
  const char fill = like.contains("\n\t\"") ? '\t' : ' ';
  return json.dump(indent, fill) + "\n";
}

}  // namespace

Commands runtime_commands() {
  return {parent_command(kContainers, "runtime", "add headgate-oci to container engines as a runtime"),
          command<EngineChoice>(kCommands, "runtime configure",
                                "add it to an engine's settings; shows the change, asks, and keeps the former file",
                                add_engine_options, runtime_command, Reads::nothing),
          command<EngineChoice>(kCommands, "runtime unconfigure", "remove it from an engine's settings",
                                add_engine_options, runtime_command, Reads::nothing)};
}

Result<std::string> with_docker_runtime(std::string_view text, const std::string& program) {
  Json json = TRY(docker_settings(text));
  const Json before = json;
  json["runtimes"][kEngineRuntime]["path"] = program;
  json["features"]["cdi"] = true;
  return json == before ? std::string(text) : text_of_settings(json, text);
}

Result<std::string> without_docker_runtime(std::string_view text) {
  Json json = TRY(docker_settings(text));
  if (!json.contains("runtimes") || json["runtimes"].erase(kEngineRuntime) == 0) return std::string(text);
  if (json["runtimes"].empty()) json.erase("runtimes");
  return json.empty() ? std::string() : text_of_settings(json, text);
}

std::string podman_drop_in(const std::string& program) {
  return "# Made by 'headgate runtime configure --podman'.\n[engine.runtimes]\n" + std::string(kEngineRuntime) +
         " = [\"" + program + "\"]\n";
}

std::string containerd_lines(const std::string& program) {
  const std::string table = R"([plugins."io.containerd.grpc.v1.cri".containerd.runtimes.headgate)";
  return "# /etc/containerd/config.toml, version 2; then restart containerd\n" + table +
         "]\n  runtime_type = \"io.containerd.runc.v2\"\n  pod_annotations = [\"headgate.io/*\"]\n" +
         "  container_annotations = [\"headgate.io/*\"]\n" + table + ".options]\n  BinaryName = \"" + program + "\"\n";
}

std::string crio_lines(const std::string& program) {
  return "# /etc/crio/crio.conf.d/headgate.conf; then restart CRI-O\n[crio.runtime.runtimes.headgate]\nruntime_path = "
         "\"" +
         program + "\"\nallowed_annotations = [\"headgate.io/share\"]\n";
}

std::vector<std::string> line_diff(std::string_view before, std::string_view after) {
  auto from = split(before, '\n'), to = split(after, '\n');
  for (auto* lines : {&from, &to})
    if (lines->back().empty()) lines->pop_back();  // behind the last line feed
  // Changes in settings are short and contiguous: skip the common start and end.
  std::size_t head = 0, tail = 0;
  while (head < std::min(from.size(), to.size()) && from[head] == to[head]) ++head;
  while (tail < std::min(from.size(), to.size()) - head && from[from.size() - 1 - tail] == to[to.size() - 1 - tail])
    ++tail;
  std::vector<std::string> diff;
  const auto put = [&](const char* mark, const auto& lines, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) diff.push_back(mark + lines[i]);
  };
  put("  ", from, head - std::min(head, kContext), head);
  put("- ", from, head, from.size() - tail);
  put("+ ", to, head, to.size() - tail);
  put("  ", from, from.size() - tail, from.size() - tail + std::min(tail, kContext));
  return diff;
}

}  // namespace headgate::cli
