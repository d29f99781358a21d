#include "daemon/cdi_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/unique_fd.hpp"
#include "base/whole_file.hpp"
#include "install/paths.hpp"
#include "oci/cdi_read.hpp"
#include "runtime/node_facts.hpp"

namespace headgate::daemon {
namespace {

namespace fs = std::filesystem;

// Directories that engines search, the higher priority last.
constexpr const char* kStaticCdiDirectory = "/etc/cdi";
constexpr const char* kRootsCdiDirectory = "/var/run/cdi";
// The file being written. It has one name, as a runtime directory has one daemon: a killed one leaves at most this.
// Engines read only names that end in .json and .yaml.
constexpr const char* kNext = ".headgate.io-share.next";

std::string text_of(const Error& error) { return error.message + (error.hint.empty() ? "" : "; " + error.hint); }

Result<UniqueFd> open_directory(const std::string& path) {
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory && errno == ENOENT) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return fail_errno("cannot make the directory " + path, error.value());
    directory = UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Whatever the umask: users without root read it too.
    if (directory) ::fchmod(directory.get(), 0755);
  }
  if (!directory) return fail_errno("cannot open the directory " + path, errno);
  return directory;
}

// The old one, if any, stays until the new one is whole. Not forced to disk: a start writes all of them again.
Result<void> put(const UniqueFd& directory, const std::string& name, std::string_view text, const std::string& shown) {
  ::unlinkat(directory.get(), kNext, 0);  // of a daemon that was killed
  return replace_whole_file(name, text,
                            {.mode = 0644, .at = directory.get(), .beside = kNext, .shown = shown, .durable = false});
}

enum class Whose { nobodys, ours, others };

// Tells our files from others': ours mounts the share's directory, or was left without content by a crash.
Whose whose(const UniqueFd& directory, const std::string& name, const std::string& share_directory) {
  struct stat facts{};
  if (::fstatat(directory.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return Whose::nobodys;
  if (!S_ISREG(facts.st_mode)) return Whose::others;
  if (facts.st_size == 0) return Whose::ours;
  const UniqueFd file(::openat(directory.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text(static_cast<std::size_t>(std::min<off_t>(facts.st_size, oci::kMaxDocumentBytes)), '\0');
  const ssize_t length = file ? ::read(file.get(), text.data(), text.size()) : -1;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, length)));
  const auto document = oci::read_json(text);
  return document && oci::share_directory_of(*document) == share_directory ? Whose::ours : Whose::others;
}

Result<std::string> executable_limiter() {
  std::string library = TRY(install::limiter_library());
  struct statvfs facts{};
  if (::statvfs(library.c_str(), &facts) == 0 && (facts.f_flag & ST_NOEXEC) != 0)
    return fail(ErrorCode::unsupported, library + " lies on a file system that is mounted noexec",
                "no program could load it from there: install headgate elsewhere");
  return library;
}

std::vector<std::string> directories_with(const std::string& own) {
  std::vector<std::string> all = {kStaticCdiDirectory, kRootsCdiDirectory};
  if (!own.empty() && std::ranges::find(all, own) == all.end()) all.push_back(own);
  return all;
}

// Returns the memory limit of each GPU in MiB; empty if there is none, or it is not the same on all.
std::optional<std::uint64_t> memory_mib_of(const tenancy::Share& share) {
  std::optional<std::uint64_t> bytes;
  for (const auto& device : share.devices) {
    if (!device.memory_limit_bytes || (bytes && bytes != device.memory_limit_bytes)) return std::nullopt;
    bytes = device.memory_limit_bytes;
  }
  return bytes ? std::optional((*bytes + (1 << 20) - 1) >> 20) : std::nullopt;
}

}  // namespace

std::vector<GpuDocuments::File> GpuDocuments::files() const {
  std::vector<File> all;
  for (auto directory = directories_.rbegin(); directory != directories_.rend(); ++directory) {
    std::vector<File> here;
    std::error_code error;
    for (fs::directory_iterator at(*directory, error), end; !error && at != end; at.increment(error)) {
      const fs::path& path = at->path();
      if (!oci::is_document_name(path.native()) || oci::share_of_file_name(path.filename().string())) continue;
      struct stat facts{};
      if (::stat(path.c_str(), &facts) != 0) continue;
      here.push_back({.path = path.string(),
                      .inode = facts.st_ino,
                      .changed_ns = facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec,
                      .size = facts.st_size});
    }
    std::ranges::sort(here, {}, &File::path);
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

bool GpuDocuments::look() {
  std::string stamp = runtime::gpu_inventory_stamp(root_);
  const bool other_driver = stamp != stamp_;
  stamp_ = std::move(stamp);
  if (other_driver) inventory_ = runtime::read_gpu_inventory(root_);
  std::vector<File> now = files();
  if (now == seen_) return other_driver && found_.empty();
  seen_ = std::move(now);
  found_.clear();
  for (const File& file : seen_) {
    const auto read = read_whole_file(file.path, oci::kMaxDocumentBytes);
    auto document = read ? oci::read_file_text(file.path, read->text) : std::unexpected(read.error());
    // Only its name shows the kind of a file that cannot be read.
    const bool is_of_gpus = document ? document->kind == oci::kGpuKind : file.path.contains("nvidia");
    if (is_of_gpus) found_.push_back({.path = file.path, .document = std::move(document)});
  }
  return true;
}

Result<oci::Edits> GpuDocuments::driver_of(std::span<const oci::GpuRef> gpus) const {
  std::string problems;
  for (const Found& each : found_) {
    auto edits = each.document ? oci::gpu_driver(*each.document, gpus) : std::unexpected(each.document.error());
    if (edits) return edits;
    problems += (problems.empty() ? "" : "; ") + each.path + ": " + edits.error().message;
  }
  if (const auto own = found_.empty() ? oci::inventory_document(inventory_) : std::nullopt)
    return oci::gpu_driver(*own, gpus);
  return fail(ErrorCode::not_found,
              problems.empty() ? "no CDI file of the kind nvidia.com/gpu tells how containers get the GPU" : problems,
              "make it: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml");
}

Result<std::string> CdiFiles::directory_of(const config::Config& config, const Options& options) {
  const config::Setting& setting = config["cdi.dir"];
  const bool named = !options.cdi_dir.empty();
  const std::string value = named ? options.cdi_dir : setting.value;
  if (value == "none") return std::string();
  if (value.empty()) {
    const bool roots_own = ::geteuid() == 0 && install::environment("HEADGATE_RUNTIME_DIR").empty();
    return std::string(roots_own ? kRootsCdiDirectory : "");
  }
  if (!value.starts_with('/'))
    return fail(ErrorCode::usage,
                (named ? "--cdi-dir" : setting.origin + ": cdi.dir =") + (" '" + value + "' is a relative path"),
                "accepted: a path that begins with /, or none");
  return value;
}

CdiFiles::CdiFiles(std::string directory, const std::string& simulated_node, const std::vector<snapshot::Gpu>& gpus,
                   tenancy::Shares& shares, observe::EventLog& events, MpsClientOf mps_client_of)
    : directory_(std::move(directory)),
      preload_list_(shares.node().runtime_dir + "/ld.so.preload"),
      shares_(shares),
      events_(events),
      mps_client_of_(std::move(mps_client_of)),
      documents_(directories_with(directory_)) {
  for (const auto& gpu : gpus) gpus_.push_back({.uuid = gpu.uuid, .index = gpu.index});
  if (directory_.empty()) {
    lack_ = "headgated writes no CDI files here; cdi.dir in its configuration, or --cdi-dir, names a directory";
    return;
  }
  auto limiter = executable_limiter();
  if (limiter) limiter_ = std::move(*limiter);
  else lack_ = text_of(limiter.error());
  const auto libraries = simulated_node.empty() ? std::string() : install::simulator_libraries();
  if (!libraries) lack_ = text_of(libraries.error());
  else if (!simulated_node.empty()) simulated_driver_ = oci::simulated_driver(*libraries, simulated_node);
}

void CdiFiles::start() {
  if (!directory_.empty()) remove_stale(), documents_.look();
  for (const auto& [name, live] : shares_.list()) add(name);
}

std::string CdiFiles::path_of(const std::string& share) const { return directory_ + "/" + oci::share_file_name(share); }

Result<void> CdiFiles::write_preload_list() const {
  const auto directory = TRY(open_directory(shares_.node().runtime_dir));
  return put(directory, "ld.so.preload", oci::preload_list(), preload_list_);
}

Result<oci::Edits> CdiFiles::driver_of(const tenancy::Share& share) const {
  if (simulated_driver_) return *simulated_driver_;
  std::vector<oci::GpuRef> wanted;
  for (const auto& device : share.devices) {
    const auto gpu = std::ranges::find(gpus_, device.uuid, &oci::GpuRef::uuid);
    if (gpu == gpus_.end())
      return fail(ErrorCode::not_found, "GPU " + device.uuid + " did not answer when headgated started");
    wanted.push_back(*gpu);
  }
  return documents_.driver_of(wanted);
}

Result<void> CdiFiles::write(const std::string& name) const {
  if (!lack_.empty()) return fail(ErrorCode::unsupported, lack_);
  const tenancy::LiveShare* const live = shares_.find(name);
  if (live == nullptr) return fail(ErrorCode::not_found, "there is no share '" + name + "'");
  if (!oci::is_device_name(name))
    return fail(ErrorCode::unsupported, "'" + name + "' is not a valid name of a CDI device",
                "such names begin and end with a letter or a digit: create a share with another name");
  if (::access(preload_list_.c_str(), R_OK) != 0) TRY(write_preload_list());
  oci::Edits driver = TRY(driver_of(live->share));
  const auto directory = TRY(open_directory(directory_));
  const std::string file = oci::share_file_name(name), place = shares_.directory(name);
  if (whose(directory, file, place) == Whose::others)
    return fail(ErrorCode::conflict, path_of(name) + " was not written by this headgated, which does not touch it",
                "move it away");
  std::optional<oci::MpsClient> mps;
  if (mps_client_of_) mps = TRY(mps_client_of_(name));
  const oci::Document document = oci::share_document({.share = name,
                                                      .directory = place,
                                                      .limiter = limiter_,
                                                      .preload_list = preload_list_,
                                                      .driver = std::move(driver),
                                                      .memory_mib = memory_mib_of(live->share),
                                                      .mps = std::move(mps)});
  // What was taken over may be sound by itself and not together.
  TRY(oci::check(document));
  return put(directory, file, oci::to_json(document), path_of(name));
}

void CdiFiles::note(const std::string& share, const Result<void>& written) {
  const std::string problem = written ? "" : text_of(written.error());
  if (std::exchange(problems_[share], problem) == problem || directory_.empty()) return;
  const tenancy::LiveShare* const live = shares_.find(share);
  events_.add({.kind = problem.empty() ? "cdi.written" : "cdi.unwritten",
               .severity = problem.empty() ? "info" : "warn",
               .share = share,
               .owner_uid = live == nullptr ? std::nullopt : std::optional(live->share.owner_uid),
               .text = problem.empty() ? "the share " + share + " has its CDI file"
                                       : "the share " + share + " has no CDI file: " + problem});
}

void CdiFiles::remove_stale() const {
  const auto directory = open_directory(directory_);
  if (!directory) return;  // the next write reports it
  ::unlinkat(directory->get(), kNext, 0);
  std::error_code error;
  for (fs::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    const std::string file = at->path().filename().string();
    const auto share = oci::share_of_file_name(file);
    if (!share || shares_.find(*share) != nullptr) continue;
    if (whose(*directory, file, shares_.directory(*share)) == Whose::ours)
      ::unlinkat(directory->get(), file.c_str(), 0);
  }
}

void CdiFiles::add(const std::string& share) {
  if (const tenancy::LiveShare* const live = shares_.find(share)) limits_[share] = live->share.devices;
  note(share, write(share));
}

void CdiFiles::remove(const std::string& share) {
  problems_.erase(share);
  limits_.erase(share);
  if (directory_.empty()) return;
  const auto directory = open_directory(directory_);
  const std::string file = oci::share_file_name(share);
  if (directory && whose(*directory, file, shares_.directory(share)) == Whose::ours)
    ::unlinkat(directory->get(), file.c_str(), 0);
}

void CdiFiles::keep() {
  if (!lack_.empty()) return;
  if (::access(preload_list_.c_str(), R_OK) != 0) static_cast<void>(write_preload_list());
  const bool changed = !simulated_driver_ && documents_.look();
  for (const auto& [name, live] : shares_.list()) {
    if (!oci::is_device_name(name)) continue;
    const bool same = limits_[name] == live.share.devices;
    if (!changed && same && problems_[name].empty() && ::access(path_of(name).c_str(), F_OK) == 0) continue;
    add(name);
  }
}

void CdiFiles::write_into(snapshot::Snapshot& snapshot) const {
  for (auto& share : snapshot.shares) {
    const auto found = problems_.find(share.name);
    if (found == problems_.end()) continue;
    if (!directory_.empty()) share.cdi_file = path_of(share.name);
    share.cdi_problem = found->second;
  }
}

}  // namespace headgate::daemon
