#include "sim/mps/commands.hpp"

#include <charconv>
#include <cstdio>
#include <sstream>
#include <vector>

#include "base/whole_number.hpp"

namespace headgate::sim::mps {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::string percent_shown(double percent) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", percent);
  return text;
}

// Returns nothing for a value that the daemon ignores.
std::optional<double> percent_in(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !(value > 0 && value <= 100)) return std::nullopt;
  return value;
}

// Returns the limit in the daemon's format: whole GiB from 1 GiB on. A number without a unit is MiB.
std::optional<std::string> memory_in(std::string word) {
  std::uint64_t unit = 1;
  if (word.ends_with('G')) unit = 1024;
  if (word.ends_with('G') || word.ends_with('M')) word.pop_back();
  const auto number = whole_number<std::uint32_t>(word);
  if (!number || *number == 0) return std::nullopt;
  const std::uint64_t mebibytes = *number * unit;
  return mebibytes >= 1024 ? std::to_string(mebibytes / 1024) + "G" : std::to_string(mebibytes) + "M";
}

std::string lines(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& line : all) text += (text.empty() ? "" : "\n") + line;
  return text;
}

Server* server_named(const std::string& word, Servers& servers) {
  const auto pid = whole_number<std::uint32_t>(word);
  return pid ? servers.find(static_cast<pid_t>(*pid)) : nullptr;
}

std::optional<std::string> terminate(const std::vector<std::string>& words, Servers& servers) {
  Server* const server = words.size() == 3 ? server_named(words[1], servers) : nullptr;
  if (server == nullptr) {
    const std::string name = words.size() > 1 ? words[1] : "";
    return "Server " + name + " not found\nServer " + name + " not found!\n1";
  }
  if (server->wedged) return std::nullopt;
  const auto client = whole_number<std::uint32_t>(words[2]);
  if (!client || !servers.terminate(*server, static_cast<pid_t>(*client)))
    return "Client " + words[2] + " not found\n1";
  return "0";
}

// Executes a command that names a server first.
std::optional<std::string> of_server(const std::vector<std::string>& words, const Manners& manners, Servers& servers) {
  if (words[0] == "terminate_client") return terminate(words, servers);
  if (words[0] == "get_server_status" && !manners.release_550) return "Unknown command \"get_server_status\"";
  const std::string name = words.size() > 1 ? words[1] : "";
  Server* const server = server_named(name, servers);
  if (server == nullptr) return "Server " + name + " not found";
  if (server->stuck) return std::nullopt;
  if (words[0] == "get_server_status") {
    const bool hidden = server->fault && server->hidden_looks > 0;
    if (hidden) --server->hidden_looks;
    return server->fault && !hidden ? "FAULT" : "ACTIVE";
  }
  if (words[0] == "get_client_list") {
    std::vector<std::string> pids;
    for (const Client& client : server->clients) pids.push_back(std::to_string(client.pid));
    return lines(pids);
  }
  if (words[0] == "set_active_thread_percentage" && words.size() == 3)
    server->percent = percent_in(words[2]).value_or(server->percent);
  if (words[0].ends_with("_active_thread_percentage")) return percent_shown(server->percent);
  if (words[0] == "set_device_pinned_mem_limit" && words.size() == 4)
    server->pinned = memory_in(words[3]).value_or(server->pinned);
  return words[0] == "get_device_pinned_mem_limit" ? server->pinned : "";
}

}  // namespace

std::optional<std::string> answer_to(const std::string& line, const Manners& manners, Defaults& defaults,
                                     Servers& servers) {
  if (manners.nonsense) return "\x1b[31mMPS? \xff what is this\x1b[0m";
  const auto words = words_of(line);
  if (words.empty()) return "";
  const std::string& command = words[0];
  if (command == "get_server_list") {
    std::vector<std::string> pids;
    for (const Server& server : servers.all()) pids.push_back(std::to_string(server.pid));
    return lines(pids);
  }
  if (command == "start_server") {
    const auto uid = words.size() == 3 && words[1] == "-uid" ? whole_number<std::uint32_t>(words[2]) : std::nullopt;
    if (uid) (void)servers.of_user(*uid, defaults.percent);
    return "";
  }
  if (command == "set_default_active_thread_percentage" && words.size() == 2)
    defaults.percent = percent_in(words[1]).value_or(defaults.percent);
  if (command.ends_with("_default_active_thread_percentage")) return percent_shown(defaults.percent);
  if (command == "set_default_device_pinned_mem_limit") {
    if (words.size() == 3)
      if (const auto memory = memory_in(words[2])) defaults.pinned[words[1]] = *memory;
    return "";
  }
  if (command == "get_default_device_pinned_mem_limit") return words.size() == 2 ? defaults.pinned[words[1]] : "";
  if (command == "set_default_client_priority" && words.size() == 2) defaults.priority = words[1] == "1" ? 1 : 0;
  if (command.ends_with("_default_client_priority"))
    return command.starts_with("get") ? std::to_string(defaults.priority) : "";
  if (command == "ps") return servers.all().empty() ? "Server not found" : "";
  if (command == "get_device_client_list") return "";
  for (const char* known : {"terminate_client", "get_server_status", "get_client_list", "set_active_thread_percentage",
                            "get_active_thread_percentage", "set_device_pinned_mem_limit",
                            "get_device_pinned_mem_limit", "shutdown_server"})
    if (command == known) return of_server(words, manners, servers);
  return "Unknown command \"" + command + "\"";
}

}  // namespace headgate::sim::mps
