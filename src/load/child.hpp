// Runs a child process and collects its stdout and stderr: used for the tenants of demo and bench.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace headgate::load {

struct ChildSpec {
  std::vector<std::string> argv{};                                 // argv[0] is a path or a name in PATH
  std::vector<std::pair<std::string, std::string>> environment{};  // added to ours or replacing it
  bool ends_with_us = false;           // SIGTERM when the thread that started it ends, even by kill -9
  std::vector<std::string> without{};  // removed from our environment; a trailing '*' matches a prefix
};

struct ChildEnd {
  int status = 0;          // exit status, or 128 + signal
  bool timed_out = false;  // it was killed at the deadline
  std::string out, err;
};

// Owns the process and its group: the destructor kills what still runs. Not thread-safe.
class Child {
 public:
  // Errors if no process can be made. A program that cannot be executed ends with status 127 and says why.
  [[nodiscard]] static Result<Child> start(const ChildSpec& spec);
  Child(Child&&) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Signals the child's whole group; does nothing once it has been waited for.
  void signal(int number) const;
  // Sends SIGTERM, and SIGKILL if it has not ended after `patience`.
  void end(std::chrono::milliseconds patience);
  // Reads the available output and returns true while it runs; never blocks.
  [[nodiscard]] bool running();
  // Waits until it ends or the deadline passes; then kills it.
  [[nodiscard]] ChildEnd wait(std::chrono::steady_clock::time_point deadline);
  [[nodiscard]] const ChildEnd& so_far() const { return end_; }

 private:
  Child() = default;
  void take_in();

  pid_t pid_ = -1;
  UniqueFd out_, err_;
  ChildEnd end_;
};

// The texts as exec takes them, ended by a null; they must live as long.
[[nodiscard]] std::vector<char*> pointers(const std::vector<std::string>& texts);

// Calls start() and wait(). Errors also if it timed out or its status was not 0 (the message includes its stderr).
[[nodiscard]] Result<ChildEnd> run_child(const ChildSpec& spec, std::chrono::milliseconds at_most);

}  // namespace headgate::load
