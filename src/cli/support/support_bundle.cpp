#include "cli/support/support_bundle.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.hpp"
#include "base/split.hpp"
#include "base/trimmed.hpp"
#include "base/unique_fd.hpp"
#include "base/version.hpp"
#include "base/whole_file.hpp"
#include "cli/commands.hpp"
#include "cli/run/launch.hpp"
#include "cli/share/daemon.hpp"
#include "cli/support/doctor.hpp"
#include "cli/term/output.hpp"
#include "cli/term/screen.hpp"
#include "cli/view/view_command.hpp"
#include "install/paths.hpp"
#include "load/child.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFolder = "headgate-support";

// The collected files, and what the redactor needs to know.
struct Gathered {
  Bundle bundle;
  snapshot::Snapshot snapshot;
  std::vector<snapshot::Event> events;

  void add(std::string name, std::string content, std::string about) {
    bundle.files.push_back({std::move(name), std::move(content)});
    bundle.about.push_back(std::move(about));
  }
  // `why`: the reason to give if there is no content.
  void add_or_lack(const std::string& name, std::string content, const std::string& about, const std::string& why) {
    if (content.empty()) bundle.lacks.push_back(about + ": " + why);
    else add(name, std::move(content), about);
  }
};

std::string config_json(const config::Reading& reading) {
  Json json = {{"schema", "headgate.config/v1"},
               {"files", reading.config.files},
               {"settings", Json::array()},
               {"errors", Json::array()}};
  for (const auto& setting : reading.config.settings)
    json["settings"].push_back({{"key", setting.key}, {"value", setting.value}, {"origin", setting.origin}});
  for (const Error& error : reading.errors)
    json["errors"].push_back({{"message", error.message}, {"hint", error.hint}});
  return pretty_json(json);
}

void add_snapshot(const Call& call, Gathered& out) {
  constexpr const char* kSnapshot = "node, GPUs, shares and processes";
  const auto chosen = choose_source(call);
  const auto snapshot = chosen ? chosen->source->look() : Result<snapshot::Snapshot>(std::unexpected(chosen.error()));
  if (!snapshot) return out.bundle.lacks.push_back(std::string(kSnapshot) + ": " + snapshot.error().message);
  out.snapshot = *snapshot;
  out.add("snapshot.json", snapshot::to_json(*snapshot),
          std::string(kSnapshot) + (snapshot->node.simulated ? " (SIMULATED)" : ""));
  if (const std::string remark = chosen->source->remark(); !remark.empty())
    out.bundle.lacks.push_back("GPUs: " + remark);
  if (const auto events = chosen->source->events_after(0)) {
    out.events = *events;
    out.add("events.json", snapshot::to_json(*events), "events, " + std::to_string(events->size()));
  } else {
    out.bundle.lacks.push_back("events: " + events.error().message);
  }
  if (!chosen->daemon) {
    out.bundle.lacks.push_back(
        "metrics, limits of the daemon: " +
        (chosen->silence ? chosen->silence->message : "headgated was not asked or does not run here"));
    return;
  }
  const auto metrics = ask(*chosen->daemon, "GET", "/metrics");
  out.add_or_lack("metrics.prom", metrics ? *metrics + "\n" : "", "metrics", metrics ? "" : metrics.error().message);
  out.add_or_lack("limits.txt", daemon_limits(*chosen->daemon), "limits of the daemon's process",
                  "they cannot be read over a socket of TCP or without /proc");
}

Gathered gather(const Call& call, const SelfTest& self_test) {
  Gathered out;
  out.add("config.json", config_json(call.configuration), "configuration, each value with where it comes from");
  add_snapshot(call, out);
  out.add("doctor.json", findings_json(examine(call, self_test)), "doctor's report");
  out.add("version.json",
          pretty_json({{"schema", "headgate.version/v1"},
                       {"version", version_text()},
                       {"daemon_version", out.snapshot.node.version},
                       {"driver_version", out.snapshot.node.driver_version}}),
          "versions");
  out.add("system.txt", system_facts(), "kernel, distribution, CPUs, memory");
  out.add_or_lack("driver.txt", driver_facts(), "driver's module and device nodes", "no NVIDIA driver is loaded");
  out.add_or_lack("unit.txt", unit_facts(), "limits and state of the unit headgated.service",
                  "systemd does not run here, or does not know it");
  return out;
}

// Hides the API token wherever it may occur.
void hide_token(const config::Config& config, Redactor& redactor) {
  std::ifstream in(config["node.token_file"].value);
  std::string token;
  while (in >> token) redactor.hide_secret(token);
}

// Hides the host's other names, by which clients may address the API.
void hide_other_names(const config::Config& config, Redactor& redactor) {
  for (const std::string& part : split(config["node.names"].value, ',')) {
    const std::string name(trimmed(part));
    redactor.hide("host", name);
    redactor.hide("host", name.substr(0, name.find('.')));
  }
}

std::string usual_name() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 64> text{};
  ::gmtime_r(&now, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "headgate-support-%Y%m%d-%H%M%S.tar.gz", &parts)};
}

std::string manifest(const Bundle& bundle, bool redacted) {
  Json json = {{"schema", "headgate.support_bundle/v1"},
               {"version", version_text()},
               {"redacted", redacted},
               {"files", Json::array()},
               {"lacks", bundle.lacks}};
  for (std::size_t i = 0; i < bundle.files.size(); ++i)
    json["files"].push_back({{"name", bundle.files[i].name}, {"about", bundle.about[i]}});
  return pretty_json(json);
}

void tell(const Bundle& bundle, bool redacted) {
  for (std::size_t i = 0; i < bundle.files.size(); ++i) {
    std::string name = bundle.files[i].name;
    name.resize(std::max<std::size_t>(name.size(), 14), ' ');
    say(name + bundle.about[i]);
  }
  for (const std::string& lack : bundle.lacks) say("lacking       " + lack);
  say(redacted ? "names of users, hosts, commands, places and private paths are replaced; share names, uids and pids "
                 "are not: read it "
                 "before you send it"
               : "nothing but secrets is replaced: names of users, hosts and programs are in it");
}

struct BundleOptions {
  std::string file;  // "" for the usual name
  bool no_redact = false;
};

Result<int> support_bundle(const Call& call, const BundleOptions& own, const SelfTest& self_test) {
  const config::Reading& reading = call.configuration;
  const std::string path = own.file.empty() ? usual_name() : own.file;
  TRY(may_write_archive(path));
  Gathered gathered = gather(call, self_test);
  Bundle& bundle = gathered.bundle;
  Redactor redactor(!own.no_redact);
  hide_token(reading.config, redactor);
  hide_other_names(reading.config, redactor);
  for (const auto& name : host_names(gathered.snapshot)) redactor.hide("host", name);
  for (const auto& name : user_names(gathered.snapshot, gathered.events)) redactor.hide("user", name);
  redact(bundle, redactor);
  const std::string told = manifest(bundle, !own.no_redact);
  std::vector<ArchiveFile> files = bundle.files;
  files.insert(files.begin(), {"MANIFEST.json", told});
  {
    const Interruptions held;  // deletes the temporary files before a signal ends us
    TRY(write_archive(path, kFolder, files));
  }
  if (!call.voice.quiet) tell(bundle, !own.no_redact);
  if (call.voice.format != Format::json) return show(harmless(path) + "\n");
  Json json = parse_json(told);
  json["file"] = path;
  return show(pretty_json(json));
}

// Temporary files for the archive; removed with this object.
class Folder {
 public:
  Folder() {
    const std::string given = install::environment("TMPDIR");
    path_ = (given.empty() ? "/tmp" : given) + "/headgate-bundle-XXXXXX";
    made_ = ::mkdtemp(path_.data()) != nullptr;  // 0700
    error_ = made_ ? 0 : errno;
  }
  ~Folder() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int error() const { return error_; }

 private:
  std::string path_;
  bool made_ = false;
  int error_ = 0;
};

// With SIGXFSZ ignored, exceeding the file size limit is an error of write() instead of killing us.
class NoSizeSignal {
 public:
  NoSizeSignal() : former_(std::signal(SIGXFSZ, SIG_IGN)) {}
  ~NoSizeSignal() { std::signal(SIGXFSZ, former_); }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  void (*former_)(int);
};

Result<void> write_new(const std::string& path, std::string_view content) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file && errno == EEXIST)
    return fail(ErrorCode::usage, "'" + harmless(path) + "' exists already",
                "name a file that does not, or move it away");
  if (!file) return fail_errno("cannot make '" + harmless(path) + "'", errno, "name a file where you may write");
  const int error = write_all(file.get(), content);
  if (error == 0) return {};
  ::unlink(path.c_str());
  return fail_errno("cannot write '" + harmless(path) + "'", error, "name a file on a disk with more room");
}

}  // namespace

void redact(Bundle& bundle, Redactor& redactor) {
  for (const ArchiveFile& file : bundle.files)
    if (file.name.ends_with(".json")) redactor.learn(file.content);
  for (ArchiveFile& file : bundle.files) {
    if (file.name.ends_with(".json")) file.content = redactor.json(file.content);
    else if (file.name.ends_with(".prom")) file.content = redactor.metrics(file.content);
    else file.content = redactor.text(file.content);
  }
  for (std::string& lack : bundle.lacks) lack = redactor.text(lack);
}

Commands support_bundle_commands(const SelfTest& self_test) {
  return {command<BundleOptions>(
      kPlumbing, "support-bundle", "write an archive for a bug report, without names",
      [](Options& options, BundleOptions& own) {
        options.simulated();
        options.operand("FILE", "a new file (default: headgate-support-DATE-TIME.tar.gz)", own.file).required = false;
        options.flag("--no-redact", "keep names of users, hosts, commands, containers and paths", own.no_redact);
      },
      [self_test](const Call& call, const BundleOptions& own) { return support_bundle(call, own, self_test); },
      Reads::configuration)};
}

Result<void> may_write_archive(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
    return fail(ErrorCode::usage, "'" + harmless(path) + "' exists already",
                "name a file that does not, or move it away");
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (::access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) != 0)
    return fail_errno("cannot make '" + harmless(path) + "'", errno, "name a file where you may write");
  for (const char* tool : {"tar", "gzip"})
    if (!find_program(tool))
      return fail(ErrorCode::unsupported, "'" + std::string(tool) + "' is not installed", "apt install tar gzip");
  return {};
}

Result<void> write_archive(const std::string& path, const std::string& folder, const std::vector<ArchiveFile>& files) {
  TRY(may_write_archive(path));
  const NoSizeSignal quiet;
  const Folder temporary;
  if (temporary.error() != 0)
    return fail_errno("cannot make '" + temporary.path() + "'", temporary.error(), "set TMPDIR to where you may write");
  const std::string inner = temporary.path() + "/" + folder;
  if (::mkdir(inner.c_str(), 0700) != 0) return fail_errno("cannot make '" + inner + "'", errno);
  std::vector<std::string> argv = {"tar", "-C",  temporary.path(), "--owner=0", "--group=0", "--numeric-owner", "-czf",
                                   "-",   folder};
  for (const ArchiveFile& file : files) TRY(write_new(inner + "/" + file.name, file.content));
  const auto packed = TRY(load::run_child({.argv = argv, .ends_with_us = true}, std::chrono::minutes(1)));
  return write_new(path, packed.out);
}

}  // namespace headgate::cli
