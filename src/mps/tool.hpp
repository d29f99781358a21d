// Runs nvidia-cuda-mps-control as a client of a control daemon: sends commands and parses answers.
//
// The tool exits with 0 whatever a command's result, and several refusals are silent (535, 550). Settings are therefore
// validated before and read back after.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "mps/places.hpp"

namespace headgate::mps {

// Upper limits for a group's clients; a client's own variables can only lower them.
struct Settings {
  std::uint32_t percent = 100;                     // percentage of the SMs, 1..100
  std::optional<std::uint64_t> pinned_bytes = {};  // GPU memory per client; none: no limit

  friend bool operator==(const Settings&, const Settings&) = default;
};
// Errors: usage for a percentage outside 1..100, or less than 1 MiB of memory.
[[nodiscard]] Result<void> check(const Settings& settings);

// A server's state; `unknown` if the release cannot report it (535). No release reports `wedged`.
enum class ServerState { unknown, initializing, active, fault, wedged };
[[nodiscard]] std::string_view word_of(ServerState state);

// Whose clients a server takes at a time. `all` (multi-user mode) makes clients of all users the server's, which runs
// as root. Releases 535 and 550 do not have it, 555 has, and only root may ask for it.
enum class ServerUsers { one, all };

struct GroupLook {
  std::vector<pid_t> servers;
  // For the requested server; unknown and empty if it is not among `servers`.
  ServerState state = ServerState::unknown;
  std::vector<pid_t> clients;
};

struct Limits {
  std::chrono::milliseconds start{5'000};      // for the launcher
  std::chrono::milliseconds ready{2'000};      // from its end until the socket accepts
  std::chrono::milliseconds quit{2'000};       // for a clean end, before the daemon is killed
  std::chrono::milliseconds answer{2'000};     // for questions and settings
  std::chrono::milliseconds terminate{5'000};  // for terminate_client
  std::chrono::milliseconds wedged{5'000};     // until a server that seems to hang does
};

class Tool {
 public:
  // `program`: a path, or a name to look up in PATH.
  Tool(std::string program, Places places, std::string uuid, const Limits& limits = {})
      : program_(std::move(program)), places_(std::move(places)), uuid_(std::move(uuid)), limits_(limits) {}

  // Starts the control daemon and blocks until the launcher has ended. Errors: unsupported (no such program; no
  // multi-user mode), unreachable (the launcher does not end), failed with the tool's message.
  [[nodiscard]] Result<void> start(ServerUsers users = ServerUsers::one) const;
  // Asks the daemon to end and blocks until it answers.
  [[nodiscard]] Result<void> quit() const;

  // Applies all settings in one call and reads them back; `servers` get them too, for later clients. Errors: those of
  // check(); failed if another value is read back.
  [[nodiscard]] Result<void> set(const Settings& settings, const std::vector<pid_t>& servers = {}) const;
  [[nodiscard]] Result<std::vector<pid_t>> servers() const;
  [[nodiscard]] Result<std::vector<pid_t>> clients(pid_t server) const;
  // Starts a server for clients of this user. The tool says nothing of what became of it.
  [[nodiscard]] Result<void> start_server(std::uint32_t uid) const;
  // Returns all servers, and the state and clients of `server` (0: none), in one call.
  [[nodiscard]] Result<GroupLook> look(pid_t server) const;
  // Detaches the client from its server, so that ending its process does not harm other clients. Errors: unreachable if
  // the call does not return in time (the server is wedged), failed with the tool's message.
  [[nodiscard]] Result<void> terminate(pid_t server, pid_t client) const;

  [[nodiscard]] const Places& places() const { return places_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }

 private:
  [[nodiscard]] Result<void> launch(const char* option) const;
  [[nodiscard]] Result<std::string> ask(const std::string& commands, std::chrono::milliseconds limit) const;
  [[nodiscard]] Result<std::vector<pid_t>> ask_pids(const std::string& command) const;

  std::string program_;
  Places places_;
  std::string uuid_;
  Limits limits_;
};

// Parses lines with one number each. Errors: failed, quoting the wrong line.
[[nodiscard]] Result<std::vector<pid_t>> parse_pids(const std::string& text);
// Parses "30.0", as the tool prints it; nothing if the line has another form.
[[nodiscard]] std::optional<double> parse_percent(std::string_view line);
// Parses "1G" or "512M" to bytes; nothing if the line has another form.
[[nodiscard]] std::optional<std::uint64_t> parse_memory(std::string_view line);

}  // namespace headgate::mps
