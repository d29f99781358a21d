#include "daemon_program.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "snapshot/json.hpp"

namespace headgate::e2e {

void rest_ms(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

Daemon::Daemon(std::vector<std::string> words, const std::string& profile) : words_(std::move(words)) {
  if (!profile.empty()) {
    std::ofstream(cli_.directory() + "/profile.toml") << profile;
    std::ofstream(cli_.directory() + "/config.toml")
        << "[sim]\nprofile = \"" << cli_.directory() << "/profile.toml\"\n";
    words_.insert(words_.end(), {"--config", cli_.directory() + "/config.toml"});
  }
  start();
}

void Daemon::start() {
  const char* const other = std::getenv("HEADGATE_TEST_DAEMON");  // e.g. a sanitizer build
  std::vector<std::string> line = {other != nullptr ? other : HEADGATE_DAEMON, "--sim"};
  line.insert(line.end(), words_.begin(), words_.end());
  program_ = std::make_unique<Program>(
      line, std::map<std::string, std::string>{{"HEADGATE_RUNTIME_DIR", cli_.runtime()},
                                               {"XDG_STATE_HOME", cli_.directory() + "/state"},
                                               {"HEADGATE_SIM_DIR", cli_.directory() + "/node"},
                                               {"HEADGATE_SIM_PROFILE", ""},
                                               {"LD_PRELOAD", ""}});
  const bool ready = eventually([this] {
    return http::exchange({.path = socket()}, {.target = "/readyz"}, std::chrono::milliseconds(1000)).has_value();
  });
  if (!ready) program_->kill_now(), program_->wait();
  ASSERT_TRUE(ready) << program_->errors();
}

void Daemon::signal(int number) const { ::kill(pid(), number); }

void Daemon::kill_and_wait() {
  program_->kill_now();
  program_->wait();
}

int Daemon::stop() {
  signal(SIGTERM);
  return program_->wait();
}

Daemon::Reply Daemon::ask(const std::string& method, const std::string& target, const std::string& body) const {
  const auto reply = http::exchange({.path = socket()}, {.method = method, .target = target, .body = body},
                                    std::chrono::milliseconds(20'000));
  if (!reply) {
    ADD_FAILURE() << method << " " << target << ": " << reply.error().message;
    return {};
  }
  return {reply->status, reply->body};
}

snapshot::Snapshot Daemon::snapshot() const {
  const auto snapshot = snapshot::from_json<snapshot::Snapshot>(ask("GET", "/v1/snapshot").body);
  if (!snapshot) {
    ADD_FAILURE() << snapshot.error().message;
    return {};
  }
  return *snapshot;
}

snapshot::Share Daemon::share(const std::string& name) const {
  for (auto& share : snapshot().shares) {
    if (share.name == name) return share;
  }
  return {};
}

}  // namespace headgate::e2e
