#include "mps/tool.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/bounded_command.hpp"
#include "base/trimmed.hpp"
#include "base/utf8.hpp"
#include "base/whole_number.hpp"

namespace headgate::mps {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kShownWords = 300;
constexpr std::uint64_t kMiB = 1 << 20;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (const std::string line(trimmed(std::string_view(text).substr(at, end - at))); !line.empty())
      lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

Result<std::vector<pid_t>> pids_from(const std::vector<std::string>& lines) {
  std::vector<pid_t> pids;
  for (const std::string& line : lines) {
    const auto pid = whole_number<std::uint32_t>(line);
    if (!pid || *pid == 0 || *pid > 0x3fff'ffff)
      return fail(ErrorCode::failed, "'" + printable(line, 80) + "' is not a process number");
    pids.push_back(static_cast<pid_t>(*pid));
  }
  return pids;
}

std::string own_words(const std::string& output) {
  std::string text;
  for (const std::string& line : lines_of(output)) text += (text.empty() ? "" : "; ") + line;
  return text.empty() ? "" : ": " + printable(text, kShownWords);
}

std::string ending_of(const CommandOutcome& outcome, milliseconds limit) {
  if (outcome.timed_out) return " did not answer within " + std::to_string(limit.count()) + " ms";
  return " " + outcome.ending();
}

std::string memory_text(std::uint64_t bytes) { return std::to_string(bytes / kMiB) + "M"; }

// From 1 GiB on, the tool shows whole GiB, rounded down (535).
bool shows(std::string_view line, std::uint64_t bytes) {
  const auto shown = parse_memory(line);
  return shown && *shown == (bytes >= 1024 * kMiB ? bytes / (1024 * kMiB) * (1024 * kMiB) : bytes / kMiB * kMiB);
}

}  // namespace

Result<void> check(const Settings& settings) {
  if (settings.percent < 1 || settings.percent > 100)
    return fail(ErrorCode::usage,
                "MPS setup: a thread percentage of " + std::to_string(settings.percent) + " is not possible",
                "accepted: 1 to 100");
  if (settings.pinned_bytes && *settings.pinned_bytes < kMiB)
    return fail(ErrorCode::usage,
                "MPS setup: a memory limit of " + std::to_string(*settings.pinned_bytes) + " bytes is not possible",
                "accepted: 1 MiB or more");
  return {};
}

std::string_view word_of(ServerState state) {
  switch (state) {
    case ServerState::initializing: return "initializing";
    case ServerState::active: return "active";
    case ServerState::fault: return "fault";
    case ServerState::wedged: return "wedged";
    case ServerState::unknown: break;
  }
  return "unknown";
}

Result<void> Tool::launch(const char* option) const {
  std::vector<std::string> words = {program_, "-d"};
  if (option != nullptr) words.emplace_back(option);
  const auto outcome = run_bounded({.words = words,
                                    .environment = tool_environment(places_, uuid_),
                                    .timeout = limits_.start,
                                    .grace = milliseconds(0)});
  if (!outcome)
    return fail(ErrorCode::unsupported, "MPS start: " + outcome.error().message,
                "install NVIDIA's MPS tools (Debian: nvidia-cuda-mps), or name the program: mps.tool");
  if (outcome->succeeded()) return {};
  const std::string said = "MPS start: " + program_ + " -d" + (option == nullptr ? "" : " " + std::string(option)) +
                           ending_of(*outcome, limits_.start) + own_words(outcome->output);
  if (!outcome->timed_out) return fail(ErrorCode::failed, said);
  return fail(ErrorCode::unreachable, said, "find out why it hangs, or name another program: mps.tool");
}

Result<void> Tool::start(ServerUsers users) const {
  if (users == ServerUsers::one) return launch(nullptr);
  // The option of later releases, and that of 555.58. A release that lacks it starts nothing: 535 and 550 say that
  // there is no daemon, 555 prints its help, and all end with status 1.
  const auto later = launch("-M");
  if (later || later.error().code != ErrorCode::failed) return later;
  const auto first = launch("-multiuser-server");
  if (first || first.error().code != ErrorCode::failed) return first;
  return fail(ErrorCode::unsupported, later.error().message + "; " + first.error().message,
              "multi-user mode needs root, and a release of NVIDIA's MPS tools from 555 on");
}

Result<void> Tool::quit() const {
  const auto outcome = TRY(run_bounded({.words = {program_},
                                        .input = "quit\n",
                                        .environment = tool_environment(places_, uuid_),
                                        .timeout = limits_.quit,
                                        .grace = milliseconds(0)}));
  // The exit status is that of the servers, so 1 counts as an answer too.
  if (!outcome.timed_out && WIFEXITED(outcome.status)) return {};
  return fail(ErrorCode::failed,
              "MPS stop: " + program_ + ending_of(outcome, limits_.quit) + own_words(outcome.output));
}

Result<std::string> Tool::ask(const std::string& commands, milliseconds limit) const {
  const auto outcome = TRY(run_bounded({.words = {program_},
                                        .input = commands,
                                        .environment = tool_environment(places_, uuid_),
                                        .timeout = limit,
                                        .grace = milliseconds(100)}));
  if (outcome.succeeded()) return outcome.output;
  return fail(outcome.timed_out ? ErrorCode::unreachable : ErrorCode::failed,
              "MPS: " + program_ + ending_of(outcome, limit) + own_words(outcome.output));
}

Result<std::vector<pid_t>> Tool::ask_pids(const std::string& command) const {
  auto pids = parse_pids(TRY(ask(command + "\n", limits_.answer)));
  if (!pids) pids.error().message = "MPS: " + command + ": " + pids.error().message;
  return pids;
}

Result<void> Tool::set(const Settings& settings, const std::vector<pid_t>& servers) const {
  if (auto sound = check(settings); !sound) return sound;
  std::string commands = "set_default_active_thread_percentage " + std::to_string(settings.percent) + "\n";
  if (settings.pinned_bytes)
    commands += "set_default_device_pinned_mem_limit 0 " + memory_text(*settings.pinned_bytes) + "\n";
  for (const pid_t server : servers) {
    const std::string pid = std::to_string(server);
    commands += "set_active_thread_percentage " + pid + " " + std::to_string(settings.percent) + "\n";
    if (settings.pinned_bytes)
      commands += "set_device_pinned_mem_limit " + pid + " 0 " + memory_text(*settings.pinned_bytes) + "\n";
  }
  // Setting commands may print anything; only the last lines are read back.
  commands += "get_default_active_thread_percentage\n";
  if (settings.pinned_bytes) commands += "get_default_device_pinned_mem_limit 0\n";
  const auto lines = lines_of(TRY(ask(commands, limits_.answer)));
  const std::size_t read_back = settings.pinned_bytes ? 2 : 1;
  if (lines.size() < read_back) return fail(ErrorCode::failed, "MPS setup: " + program_ + " does not read back values");
  const std::string& percent = lines[lines.size() - read_back];
  const auto has = parse_percent(percent);
  if (!has || std::lround(*has) != std::lround(settings.percent))
    return fail(ErrorCode::failed, "MPS setup: a thread percentage of " + std::to_string(settings.percent) +
                                       " was set, and the daemon has '" + printable(percent, 80) + "'");
  if (settings.pinned_bytes && !shows(lines.back(), *settings.pinned_bytes))
    return fail(ErrorCode::failed, "MPS setup: a memory limit of " + memory_text(*settings.pinned_bytes) +
                                       " was set, and the daemon has '" + printable(lines.back(), 80) + "'");
  return {};
}

Result<std::vector<pid_t>> Tool::servers() const { return ask_pids("get_server_list"); }

Result<void> Tool::start_server(std::uint32_t uid) const {
  TRY(ask("start_server -uid " + std::to_string(uid) + "\n", limits_.answer));
  return {};
}

Result<std::vector<pid_t>> Tool::clients(pid_t server) const {
  return ask_pids("get_client_list " + std::to_string(server));
}

// The state line is never a number, even for a refusal; it separates the servers before it from the clients after it.
Result<GroupLook> Tool::look(pid_t server) const {
  const std::string pid = std::to_string(server);
  const std::string of_server = "get_server_status " + pid + "\nget_client_list " + pid + "\n";
  const auto lines = lines_of(TRY(ask("get_server_list\n" + (server == 0 ? "" : of_server), limits_.answer)));
  const auto is_number = [](const std::string& line) { return whole_number<std::uint32_t>(line).has_value(); };
  const auto end = server == 0 ? lines.end() : std::ranges::find_if_not(lines, is_number);
  GroupLook look;
  look.servers = TRY(pids_from({lines.begin(), end}));
  if (std::ranges::find(look.servers, server) == look.servers.end()) return look;
  if (end == lines.end()) return fail(ErrorCode::failed, "MPS: get_server_status " + pid + " was not answered");
  look.clients = TRY(pids_from({end + 1, lines.end()}));
  for (const ServerState state : {ServerState::initializing, ServerState::active, ServerState::fault}) {
    std::string word(word_of(state));
    std::ranges::transform(word, word.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
    if (end->contains(word)) look.state = state;
  }
  return look;
}

Result<void> Tool::terminate(pid_t server, pid_t client) const {
  const std::string answer =
      TRY(ask("terminate_client " + std::to_string(server) + " " + std::to_string(client) + "\n", limits_.terminate));
  if (!answer.contains("not found")) return {};
  return fail(ErrorCode::failed, "MPS: terminate_client " + std::to_string(client) + own_words(answer));
}

Result<std::vector<pid_t>> parse_pids(const std::string& text) { return pids_from(lines_of(text)); }

std::optional<double> parse_percent(std::string_view line) {
  double value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || end != line.data() + line.size() || !(value > 0 && value <= 100)) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_memory(std::string_view line) {
  if (line.size() < 2) return std::nullopt;
  const std::uint64_t unit = line.back() == 'G' ? 1024 * kMiB : line.back() == 'M' ? kMiB : 0;
  const auto number = whole_number<std::uint32_t>(std::string(line.substr(0, line.size() - 1)));
  if (!number || unit == 0) return std::nullopt;
  return *number * unit;
}

}  // namespace headgate::mps
