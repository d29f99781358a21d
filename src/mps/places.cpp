#include "mps/places.hpp"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>

#include "base/owned_file.hpp"
#include "base/utf8.hpp"

extern char** environ;

namespace headgate::mps {
namespace {

// The longest socket name that the tool uses there.
constexpr std::string_view kLongestSocket = "/control_privileged";
constexpr std::string_view kLeftFiles[] = {"control", "control_lock", "control_privileged", "log",
                                           "nvidia-cuda-mps-control.pid"};

Result<void> make_directory(const std::string& path, mode_t mode, bool ours) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("MPS setup: cannot make " + path, errno);
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) return fail_errno("MPS setup: cannot look at " + path, errno);
  if (!S_ISDIR(facts.st_mode))
    return fail(ErrorCode::denied, "MPS setup: " + path + " is not a directory", "remove it");
  if (facts.st_uid != ::geteuid())
    return fail(ErrorCode::denied, "MPS setup: " + path + " belongs to uid " + std::to_string(facts.st_uid),
                "remove it, or give headgated another runtime directory");
  if (ours && (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fail(ErrorCode::denied, "MPS setup: others may write " + path, "chmod go-w " + path);
  if (::chmod(path.c_str(), mode) != 0) return fail_errno("MPS setup: cannot set the mode of " + path, errno);
  return {};
}

}  // namespace

std::string describe(const GroupKey& group) {
  return printable(group.uuid, 80) + (group.is_for_all() ? " (all users)" : " (uid " + std::to_string(group.uid) + ")");
}

Result<Places> places_of(const std::string& base, const GroupKey& group) {
  const bool is_name = !group.uuid.empty() && std::ranges::all_of(group.uuid, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  });
  if (!is_name)
    return fail(ErrorCode::usage, "MPS setup: '" + printable(group.uuid, 80) + "' is not the UUID of a GPU",
                "accepted: GPU-1a2b3c4d-...");
  Places places;
  places.directory = base + "/" + group.uuid + "/" + (group.is_for_all() ? "all" : std::to_string(group.uid));
  places.pipe = places.directory + "/pipe";
  places.log = places.directory + "/log";
  constexpr std::size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;
  const std::size_t length = places.pipe.size() + kLongestSocket.size();
  if (length > kMaxPath)
    return fail(ErrorCode::usage,
                "MPS setup: " + places.pipe + std::string(kLongestSocket) + " is " + std::to_string(length) +
                    " bytes long, and a socket's path is at most " + std::to_string(kMaxPath),
                "give headgated a shorter runtime directory (HEADGATE_RUNTIME_DIR)");
  return places;
}

Result<void> make_places(const std::string& base, const Places& places) {
  const std::string of_gpu = std::filesystem::path(places.directory).parent_path();
  for (const std::string& path : {base, of_gpu, places.directory})
    if (auto made = make_directory(path, 0711, true); !made) return made;
  // Servers of other users create files there; the sticky bit protects the daemon's files.
  if (auto made = make_directory(places.pipe, 01777, false); !made) return made;
  return make_directory(places.log, 0700, true);
}

void remove_stale(const Places& places) {
  for (const std::string_view name : kLeftFiles) ::unlink((places.pipe + "/" + std::string(name)).c_str());
}

std::vector<std::string> tool_environment(const Places& places, const std::string& uuid) {
  std::vector<std::string> all;
  for (char** variable = ::environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!text.starts_with("CUDA_") && !text.starts_with("LD_PRELOAD=") && !text.starts_with("NVIDIA_"))
      all.emplace_back(text);
  }
  all.push_back("CUDA_MPS_PIPE_DIRECTORY=" + places.pipe);
  all.push_back("CUDA_MPS_LOG_DIRECTORY=" + places.log);
  all.push_back("CUDA_VISIBLE_DEVICES=" + uuid);
  return all;
}

}  // namespace headgate::mps
