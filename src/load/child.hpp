// A child process whose stdout and stderr are gathered: how demo and bench run their tenants.
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
  std::vector<std::pair<std::string, std::string>> environment{};  // added to ours, replacing
  bool ends_with_us = false;           // SIGTERM when the thread that started it ends, be it by kill -9
  std::vector<std::string> without{};  // taken out of ours; a trailing '*' takes a whole prefix
};

struct ChildEnd {
  int status = 0;          // exit status, or 128 + signal
  bool timed_out = false;  // it had to be killed
  std::string out, err;
};

// Owns the process and its group: the destructor kills what still runs. Not thread-safe.
class Child {
 public:
  // Errors: the program cannot be started.
  [[nodiscard]] static Result<Child> start(const ChildSpec& spec);
  Child(Child&&) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // To the child's whole group; nothing when it has been waited for.
  void signal(int number) const;
  // Asks it to end (SIGTERM), and kills it when it has not after `patience`.
  void end(std::chrono::milliseconds patience);
  // Takes in what it has written and says whether it still runs; never blocks.
  [[nodiscard]] bool running();
  // Until it ends or the deadline passes; then it is killed.
  [[nodiscard]] ChildEnd wait(std::chrono::steady_clock::time_point deadline);
  [[nodiscard]] const ChildEnd& so_far() const { return end_; }

 private:
  Child() = default;
  void take_in();

  pid_t pid_ = -1;
  UniqueFd out_, err_;
  ChildEnd end_;
};

// start() and wait() in one; an Error also when it did not end with status 0 (its stderr is in the message) or in time.
[[nodiscard]] Result<ChildEnd> run_child(const ChildSpec& spec, std::chrono::milliseconds at_most);

}  // namespace headgate::load
