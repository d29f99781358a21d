#include "mps/multi_user.hpp"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>

#include "base/utf8.hpp"
#include "base/whole_file.hpp"
#include "base/whole_number.hpp"
#include "mps/control_daemon.hpp"

namespace headgate::mps {
namespace {

// Any user but ours; no process of it is needed.
constexpr std::uint32_t kOtherUser = 65'534;

Result<Places> probe_places(const std::string& base) { return places_of(base, {"probe", kAllUsers}); }

// Reads "[...] Starting new server 2923 for user 0".
std::optional<std::uint32_t> user_of_first_server(const std::string& log) {
  constexpr std::string_view kBegins = "Starting new server ", kUser = " for user ";
  constexpr std::size_t kMaxBytes = 1 << 20;
  const auto read = read_whole_file(log, kMaxBytes);
  if (!read) return std::nullopt;
  const std::string& text = read->text;
  const std::size_t line = text.find(kBegins), user = text.find(kUser, line), end = text.find('\n', line);
  if (line == std::string::npos || user == std::string::npos || end == std::string::npos || user > end)
    return std::nullopt;
  return whole_number<std::uint32_t>(text.substr(user + kUser.size(), end - user - kUser.size()));
}

Result<void> ask_for_server(const Tool& tool) {
  const std::string log = tool.places().log + "/control.log";
  TRY(tool.start_server(kOtherUser));
  const auto until = std::chrono::steady_clock::now() + tool.limits().ready;
  for (;;) {
    if (const auto user = user_of_first_server(log)) {
      if (*user == ::geteuid()) return {};
      return fail(ErrorCode::unsupported, "its control daemon starts servers for uid " + std::to_string(*user) +
                                              ", so it has not become multi-user");
    }
    if (std::chrono::steady_clock::now() >= until)
      return fail(ErrorCode::unsupported, "its control daemon does not say for which user it starts a server");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

Result<void> probe_multi_user(const std::string& program, const std::string& base, const std::string& proc,
                              const Limits& limits, const std::function<void()>& step) {
  const Places places = TRY(probe_places(base));
  const Tool tool(program, places, "", limits);  // no GPU
  const auto daemon = start_daemon(tool, ServerUsers::all, base, proc);
  step();
  auto works = daemon ? ask_for_server(tool) : std::unexpected(daemon.error());
  step();
  if (daemon)
    if (const auto stopped = stop_daemon(tool, *daemon, proc); !stopped && works)
      works = std::unexpected(stopped.error());
  step();
  end_multi_user_probe(base, proc);
  return works;
}

void end_multi_user_probe(const std::string& base, const std::string& proc) {
  const auto places = probe_places(base);
  std::error_code none;
  if (!places || !std::filesystem::exists(places->directory, none)) return;
  (void)kill_started(*places, ItsServers::kill, proc);
  std::filesystem::remove_all(std::filesystem::path(places->directory).parent_path(), none);
}

}  // namespace headgate::mps
