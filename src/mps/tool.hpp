// nvidia-cuda-mps-control as a client of a running control daemon: commands in, answers out.
//
// The tool exits 0 whatever a command came to, and several refusals are silent (535, 550): a setting is therefore
// checked before, and read back after.
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

// What a group's clients may have at most; a client's own variables can only lower it.
struct Settings {
  std::uint32_t percent = 100;                     // of the SMs, 1..100
  std::optional<std::uint64_t> pinned_bytes = {};  // GPU memory of each client; none: no limit

  friend bool operator==(const Settings&, const Settings&) = default;
};
// Errors: usage: a percentage that is not 1..100, memory of less than 1 MiB.
[[nodiscard]] Result<void> check(const Settings& settings);

// A server's state; `unknown` where the release has no command for it (535).
enum class ServerState { unknown, initializing, active, fault };
[[nodiscard]] std::string_view word_of(ServerState state);

struct GroupLook {
  std::vector<pid_t> servers;
  // Of the server that was asked about; unknown and none where it is not among `servers`.
  ServerState state = ServerState::unknown;
  std::vector<pid_t> clients;
};

struct Limits {
  std::chrono::milliseconds start{5'000};      // for the launcher
  std::chrono::milliseconds ready{2'000};      // from its end until the socket answers
  std::chrono::milliseconds quit{2'000};       // for a clean end; then the daemon is killed
  std::chrono::milliseconds answer{2'000};     // for questions and settings
  std::chrono::milliseconds terminate{5'000};  // for terminate_client
};

class Tool {
 public:
  // `program`: a path, or a name that is looked up in PATH.
  Tool(std::string program, Places places, std::string uuid, const Limits& limits = {})
      : program_(std::move(program)), places_(std::move(places)), uuid_(std::move(uuid)), limits_(limits) {}

  // Starts the control daemon and blocks until the launcher has ended. Errors: unsupported (there is no such program),
  // failed with the tool's own words.
  [[nodiscard]] Result<void> start() const;
  // Asks the daemon to end, and blocks until it has answered.
  [[nodiscard]] Result<void> quit() const;

  // Sets all in one call, and reads them back. These servers take them too, for later clients.
  // Errors: of check(); failed, where another value is read back.
  [[nodiscard]] Result<void> set(const Settings& settings, const std::vector<pid_t>& servers = {}) const;
  [[nodiscard]] Result<std::vector<pid_t>> servers() const;
  [[nodiscard]] Result<std::vector<pid_t>> clients(pid_t server) const;
  // The servers, and state and clients of the one that was seen last (0: none), in one call.
  [[nodiscard]] Result<GroupLook> look(pid_t server) const;
  // Takes the client off its server; afterwards its process can be ended without harm to the other clients. Errors:
  // unreachable, where the call does not return in time: the server is wedged; failed with the tool's words.
  [[nodiscard]] Result<void> terminate(pid_t server, pid_t client) const;

  [[nodiscard]] const Places& places() const { return places_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }

 private:
  [[nodiscard]] Result<std::string> ask(const std::string& commands, std::chrono::milliseconds limit) const;
  [[nodiscard]] Result<std::vector<pid_t>> ask_pids(const std::string& command) const;

  std::string program_;
  Places places_;
  std::string uuid_;
  Limits limits_;
};

// Lines of numbers and nothing else. Errors: failed, with the line that is none.
[[nodiscard]] Result<std::vector<pid_t>> parse_pids(const std::string& text);
// "30.0", as the tool answers; nothing where a line is no such figure.
[[nodiscard]] std::optional<double> parse_percent(std::string_view line);
// "1G", "512M": bytes; nothing where a line is no such figure.
[[nodiscard]] std::optional<std::uint64_t> parse_memory(std::string_view line);

}  // namespace headgate::mps
