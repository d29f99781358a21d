#include "runtime/share_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/whole_file.hpp"
#include "oci/preload_list.hpp"
#include "oci/share_device.hpp"
#include "runtime/image.hpp"
#include "runtime/node_facts.hpp"

namespace headgate::runtime {
namespace {

constexpr const char* kPreloadList = "/etc/ld.so.preload";
constexpr std::size_t kMaxListBytes = 64 << 10;

bool has_mps(const oci::Document& document) {
  const auto& env = document.devices.front().edits.env;
  return std::ranges::any_of(env, [](const std::string& each) { return each.starts_with("CUDA_MPS_PIPE_DIRECTORY="); });
}

// Returns the list the container would preload without us: a user's mount overrides the image's file.
std::string own_list(const oci::ContainerConfig& config, const ImageFacts& image) {
  const auto mounted = config.source_of(kPreloadList);
  if (!mounted) return image.preload_list;
  const auto file = read_whole_file(*mounted, kMaxListBytes);
  return file ? file->text : std::string();
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n:") == std::string_view::npos; }

// gVisor and Kata: their containers see neither the host's pages nor its driver through our mounts.
std::string sandbox_trouble(const std::string& program) {
  const std::string name = program.substr(program.rfind('/') + 1);
  const bool has_own_kernel = name == "runsc" || name.contains("kata");
  return has_own_kernel ? "its runtime, " + name + ", gives it its own kernel" : "";
}

}  // namespace

std::string root_of(const Bundle& bundle, const oci::ContainerConfig& config) {
  return (std::filesystem::path(bundle.path()) / config.root()).string();
}

Result<oci::Document> share_document_of(const std::string& share, const Settings& settings) {
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

// No list for programs that would fail to load it, with a warning or fatally.
Result<PreloadChoice> choose_preload_list(const Settings& settings, const oci::Document& document, const Bundle& bundle,
                                          const oci::ContainerConfig& config) {
  using Kind = PreloadChoice::Kind;
  const ImageFacts image = look_at_image(root_of(bundle, config), config);
  std::string trouble = sandbox_trouble(settings.program);
  if (trouble.empty()) trouble = limiter_trouble(image);
  if (!trouble.empty()) {
    const std::string what = "the share '" + document.devices.front().name + "' cannot hold this image: " + trouble;
    if (settings.image == ImagePolicy::refuse)
      return fail(ErrorCode::unsupported, what,
                  "use runc and an image with glibc; [runtime] image = \"warn\" starts it without a limit");
    const bool by_mps = settings.image == ImagePolicy::mps;
    if (by_mps && !has_mps(document))
      return fail(ErrorCode::unsupported, what + "; and the share has no MPS, which would", "use an image with glibc");
    return PreloadChoice{.kind = Kind::none,
                         .warning = what + (by_mps ? "; MPS alone limits it" : "; it starts unlimited")};
  }
  const std::string list = own_list(config, image);
  if (is_blank(list)) return PreloadChoice{};
  return PreloadChoice{
      .kind = Kind::merged,
      .path = TRY(bundle.put("headgate-ld.so.preload", oci::with_limiter(list, oci::kMountedLimiter)))};
}

}  // namespace headgate::runtime
