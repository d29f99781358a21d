#include "runtime/runtime.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/utf8.hpp"
#include "oci/share_device.hpp"
#include "runtime/bundle.hpp"
#include "runtime/entry_check.hpp"
#include "runtime/node_facts.hpp"
#include "runtime/report.hpp"
#include "runtime/share_files.hpp"

namespace headgate::runtime {
namespace {

std::string next_program(const Settings& settings) {
  if (!settings.program.empty()) return settings.program;
  for (const char* name : {"runc", "crun"})
    if (std::string found = program_on_path(name); !found.empty()) return found;
  // Engines run as services may have a short PATH.
  for (const char* directory : {"/usr/sbin/", "/usr/bin/", "/usr/local/sbin/", "/usr/local/bin/"})
    for (const char* name : {"runc", "crun"})
      if (const std::string path = std::string(directory) + name; ::access(path.c_str(), X_OK) == 0) return path;
  return {};
}

// Executing itself would loop forever.
bool is_this_program(const std::string& path) {
  struct stat ours{}, theirs{};
  return ::stat("/proc/self/exe", &ours) == 0 && ::stat(path.c_str(), &theirs) == 0 && ours.st_dev == theirs.st_dev &&
         ours.st_ino == theirs.st_ino;
}

Error execute(const std::string& program, const Arguments& arguments) {
  if (program.empty())
    return {ErrorCode::not_found, "there is neither runc nor crun on PATH", "[runtime] program names one"};
  if (is_this_program(program))
    return {ErrorCode::usage, "[runtime] program is headgate-oci itself", "name runc or crun"};
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (const std::string& each : arguments.passed) words.push_back(const_cast<char*>(each.c_str()));
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  return fail_errno("cannot execute " + printable(program), errno, "[runtime] program names runc or crun").error();
}

}  // namespace

Result<void> edit_bundle(const Arguments& arguments, const Settings& settings) {
  const Bundle bundle = TRY(Bundle::open(arguments.bundle));
  const oci::ContainerConfig before = TRY(bundle.config());
  const oci::ShareChoice choice = TRY(oci::choose_share(before, settings.rules));
  if (choice.share.empty()) {
    // The broken file may have a rule for this container.
    if (!settings.problem.empty() && oci::has_gpu(before, settings.rules.next_is_nvidias))
      return fail(ErrorCode::usage, settings.problem, "headgate config check reads the file");
    return {};
  }
  const oci::Document document = TRY(share_document_of(choice.share, settings));
  if (const std::string warning = TRY(check_entry(oci::share_directory_of(document), before)); !warning.empty())
    report(arguments, Severity::warning, "headgate: " + warning);
  auto config = TRY(oci::in_share(before, document, choice.by, host_node));
  std::optional<oci::ContainerConfig> without;
  if (choice.by == oci::AskedBy::engine)
    oci::replace_preload_list(without.emplace(before), "");  // it is the document's
  const PreloadChoice list = TRY(choose_preload_list(settings, document, bundle, without ? *without : before));
  if (list.kind != PreloadChoice::Kind::documents) oci::replace_preload_list(config, list.path);
  if (!list.warning.empty()) report(arguments, Severity::warning, "headgate: " + list.warning);
  if (config == before) return {};
  return bundle.replace_config(config);
}

int run_runtime(std::span<const std::string> words) {
  const Arguments arguments = read_arguments(words);
  const Settings settings = read_settings(arguments.configuration);
  if (arguments.command == "create" || arguments.command == "run") {
    if (const auto edited = edit_bundle(arguments, settings); !edited) {
      report(arguments, Severity::error, sentence(edited.error()));
      return 1;
    }
  }
  report(arguments, Severity::error, sentence(execute(next_program(settings), arguments)));
  return 1;
}

}  // namespace headgate::runtime
