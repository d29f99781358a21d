// headgated on a simulated node of two L40S, with a listener for the zeusd API.
#pragma once

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "daemon_program.hpp"

namespace headgate::e2e {

// In a directory that users other than root can reach.
class PowerDaemon {
 public:
  explicit PowerDaemon(const std::string& configuration = "")
      : directory_("/tmp"), socket_(directory_.path() + "/z.sock"), daemon_(words(configuration)) {
    std::filesystem::permissions(directory_.path(), std::filesystem::perms(0755));
  }

  struct Answer {
    int status = -1;
    std::string body;
  };
  // Called as root, or as the uid given (setpriv).
  [[nodiscard]] Answer post(const std::string& target, const std::string& who = "") const {
    return curl("-X POST", target, who);
  }
  [[nodiscard]] Answer get(const std::string& target, const std::string& who = "") const {
    return curl("", target, who);
  }
  [[nodiscard]] std::vector<std::string> events(const std::string& kind) const {
    std::vector<std::string> texts;
    std::istringstream lines(daemon_.cli().shell("$H events -o jsonl").out);
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (event.is_object() && event.value("kind", "") == kind) texts.push_back(event.value("text", ""));
    }
    return texts;
  }
  [[nodiscard]] const Daemon& daemon() const { return daemon_; }
  Daemon& daemon() { return daemon_; }
  [[nodiscard]] const std::string& socket() const { return socket_; }
  [[nodiscard]] const std::string& directory() const { return directory_.path(); }

 private:
  std::vector<std::string> words(const std::string& configuration) const {
    std::ofstream(directory_.path() + "/config.toml") << configuration;
    return {"--sim=l40s-x2", "--zeusd-socket", socket_, "--config", directory_.path() + "/config.toml"};
  }
  Answer curl(const std::string& method, const std::string& target, const std::string& who) const {
    const std::string as = who.empty() ? "" : "setpriv --reuid " + who + " --regid " + who + " --clear-groups ";
    const Said said = daemon_.cli().shell(as + "curl -s -m 20 -w '\\n%{http_code}' --unix-socket " + socket_ + " " +
                                          method + " 'http://localhost" + target + "'");
    const auto end = said.out.rfind('\n');
    if (end == std::string::npos) return {-1, said.err};
    return {std::atoi(said.out.c_str() + end + 1), said.out.substr(0, end)};
  }

  Directory directory_;
  std::string socket_;
  Daemon daemon_;
};

}  // namespace headgate::e2e
