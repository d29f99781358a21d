// A headgated under test on a private simulated node, and a command for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli_program.hpp"
#include "http/client.hpp"
#include "sim_program.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::e2e {

class Daemon {
 public:
  // `words`: further arguments; `profile`: TOML of the simulated node (empty: the default). The daemon is ready on
  // return.
  explicit Daemon(std::vector<std::string> words = {}, const std::string& profile = {});

  [[nodiscard]] const Cli& cli() const { return cli_; }
  [[nodiscard]] std::string socket() const { return cli_.runtime() + "/control/headgate.sock"; }
  void start();
  void kill_and_wait();  // SIGKILL
  int stop();            // SIGTERM; returns its exit status
  [[nodiscard]] pid_t pid() const { return program_->pid(); }
  [[nodiscard]] std::string errors() { return program_->errors(); }
  [[nodiscard]] std::string errors_so_far() { return program_->errors_so_far(); }
  void signal(int number) const;

  struct Reply {
    int status = 0;
    std::string body;
  };
  [[nodiscard]] Reply ask(const std::string& method, const std::string& target, const std::string& body = {}) const;
  [[nodiscard]] snapshot::Snapshot snapshot() const;
  // Returns the share from a new snapshot; a default one if there is none.
  [[nodiscard]] snapshot::Share share(const std::string& name) const;

 private:
  Cli cli_;
  std::vector<std::string> words_;
  std::unique_ptr<Program> program_;
};

// Polls until `holds` is true, for at most 20 s; returns false if it never was.
template <typename Condition>
[[nodiscard]] bool eventually(Condition holds);

void rest_ms(int milliseconds);

template <typename Condition>
bool eventually(Condition holds) {
  for (int i = 0; i < 400; ++i) {
    if (holds()) return true;
    rest_ms(50);
  }
  return false;
}

}  // namespace headgate::e2e
