#include "runtime/runtime.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/utf8.hpp"
#include "base/whole_file.hpp"
#include "oci/preload_list.hpp"
#include "oci/share_device.hpp"
#include "runtime/bundle.hpp"
#include "runtime/cdi_directories.hpp"
#include "runtime/image.hpp"
#include "runtime/node_facts.hpp"
#include "runtime/report.hpp"

namespace headgate::runtime {
namespace {

constexpr const char* kPreloadList = "/etc/ld.so.preload";
constexpr std::size_t kMaxListBytes = 64 << 10;

// The share's CDI file, which headgated keeps: it is there also while the daemon is not.
Result<oci::Document> document_of(const std::string& share, const Settings& settings) {
  const std::string path = settings.cdi_directory + "/" + oci::share_file_name(share);
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0 && errno == ENOENT)
    return fail(
        ErrorCode::not_found, "there is no share '" + share + "' for containers: " + path + " is missing",
        "'headgate share ls' names the shares, 'headgate share show " + share + "' says what is wrong with one");
  auto document = read_cdi_file(path);
  if (!document) return fail(document.error().code, path + ": " + document.error().message, document.error().hint);
  const std::string directory = oci::share_directory_of(*document);
  if (directory.empty() || document->devices.front().name != share)
    return fail(ErrorCode::usage, path + " is not the CDI file of the share '" + share + "'",
                "move it away: headgated writes its own within a second");
  if (::stat(directory.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))
    return fail(ErrorCode::not_found, "the share '" + share + "' is gone: there is no " + directory,
                "start headgated, which makes it again, or name another share");
  return document;
}

bool has_mps(const oci::Document& document) {
  const auto& env = document.devices.front().edits.env;
  return std::ranges::any_of(env, [](const std::string& each) { return each.starts_with("CUDA_MPS_PIPE_DIRECTORY="); });
}

std::string root_of(const Bundle& bundle, const oci::ContainerConfig& config) {
  return (std::filesystem::path(bundle.path()) / config.root()).string();
}

// What the container's programs would preload without us: the user's own mount goes before the image's.
std::string own_list(const oci::ContainerConfig& config, const ImageFacts& image) {
  const auto mounted = config.source_of(kPreloadList);
  if (!mounted) return image.preload_list;
  const auto file = read_whole_file(*mounted, kMaxListBytes);
  return file ? file->text : std::string();
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n:") == std::string_view::npos; }

// No list for programs that could only complain about it, or die of it.
Result<void> settle_list(const Arguments& arguments, const Settings& settings, const oci::Document& document,
                         const Bundle& bundle, const oci::ContainerConfig& before, oci::ContainerConfig& config) {
  const ImageFacts image = look_at_image(root_of(bundle, before), before);
  const std::string& share = document.devices.front().name;
  if (const std::string trouble = limiter_trouble(image); !trouble.empty()) {
    const std::string what = "the share '" + share + "' cannot hold this image: " + trouble;
    if (settings.image == ImagePolicy::refuse)
      return fail(ErrorCode::unsupported, what,
                  "use an image with glibc; [runtime] image = \"warn\" starts it without a limit");
    if (settings.image == ImagePolicy::mps && !has_mps(document))
      return fail(ErrorCode::unsupported, what + "; and the share has no MPS, which would", "use an image with glibc");
    report(
        arguments, Severity::warning,
        "headgate: " + what + (settings.image == ImagePolicy::mps ? "; MPS alone limits it" : "; it starts unlimited"));
    oci::replace_preload_list(config, "");
    return {};
  }
  const std::string list = own_list(before, image);
  if (is_blank(list)) return {};
  oci::replace_preload_list(config,
                            TRY(bundle.put("headgate-ld.so.preload", oci::with_limiter(list, oci::kMountedLimiter))));
  return {};
}

std::string next_program(const Settings& settings) {
  if (!settings.program.empty()) return settings.program;
  for (const char* name : {"runc", "crun"})
    if (std::string found = program_on_path(name); !found.empty()) return found;
  // Engines as services may have a short PATH.
  for (const char* directory : {"/usr/sbin/", "/usr/bin/", "/usr/local/sbin/", "/usr/local/bin/"})
    for (const char* name : {"runc", "crun"})
      if (const std::string path = std::string(directory) + name; ::access(path.c_str(), X_OK) == 0) return path;
  return {};
}

// It would execute itself for ever.
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
    // What the file would say of it is not known.
    if (!settings.problem.empty() && oci::has_gpu(before, settings.rules.next_is_nvidias))
      return fail(ErrorCode::usage, settings.problem, "headgate config check reads the file");
    return {};
  }
  const oci::Document document = TRY(document_of(choice.share, settings));
  auto config = TRY(oci::in_share(before, document, choice.by, host_node));
  const bool ours = choice.by == oci::AskedBy::engine;
  oci::ContainerConfig seen = before;
  if (ours) oci::replace_preload_list(seen, "");  // that mount is the document's
  if (auto settled = settle_list(arguments, settings, document, bundle, seen, config); !settled) return settled;
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
