#include "runtime/entry_check.hpp"

#include <poll.h>

#include <chrono>
#include <filesystem>
#include <sstream>

#include "base/utf8.hpp"
#include "base/whole_file.hpp"
#include "http/client.hpp"

namespace headgate::runtime {
namespace {

constexpr std::chrono::milliseconds kAnswer{2'000};

// Returns whether uids in config.json are the host's: only if the engine is in the host's user namespace.
bool has_numbers_of_the_host() {
  const auto map = read_whole_file("/proc/self/uid_map", 4096);
  if (!map) return true;
  std::istringstream words(map->text);
  std::string inside, outside, count, more;
  words >> inside >> outside >> count >> more;
  return inside == "0" && outside == "0" && count == "4294967295" && more.empty();
}

std::string target_of(const std::string& share, const oci::ContainerConfig& config) {
  std::string target = "/v1/shares/" + share + "/container";
  if (!has_numbers_of_the_host()) return target;
  const oci::ContainerUser user = oci::container_user(config);
  target += "?uid=" + std::to_string(user.uid) + "&gid=" + std::to_string(user.gid) + "&groups=";
  for (const std::uint32_t group : user.groups) target += (target.ends_with('=') ? "" : ",") + std::to_string(group);
  return user.has_user_namespace ? target + "&user_namespace_owner=0" : target;
}

}  // namespace

Result<std::string> check_entry(const std::string& directory, const oci::ContainerConfig& config) {
  using Clock = std::chrono::steady_clock;
  const std::filesystem::path share(directory);
  const http::Endpoint daemon{.path = (share.parent_path().parent_path() / "control/headgate.sock").string()};
  const auto until = Clock::now() + kAnswer;
  // A daemon that ends before it has answered is gone, and one that is just starting is asked again.
  while (http::try_to_connect(daemon) == 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0)
      return fail(ErrorCode::unreachable,
                  "headgated at " + printable(daemon.path) + " does not answer within 2 s, so the share '" +
                      share.filename().string() + "' could not be asked for",
                  "restart headgated; programs that run go on");
    const auto reply = http::exchange(daemon, {.target = target_of(share.filename().string(), config)}, left);
    if (!reply && reply.error().code == ErrorCode::unreachable) {
      ::poll(nullptr, 0, 10);
      continue;
    }
    if (!reply || reply->status / 100 == 2) return std::string();
    return std::unexpected(http::error_of(reply->status, reply->body));
  }
  const auto policy = read_whole_file(directory + "/fail-policy", 64);
  if (!policy || !policy->text.starts_with("open")) return std::string();
  return "headgated does not run: programs that the container starts before it does run outside the share '" +
         share.filename().string() + "', whose fail policy is open";
}

}  // namespace headgate::runtime
