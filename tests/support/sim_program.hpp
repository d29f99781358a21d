// A child process under test: arguments, environment, streams, and a deadline. Ended when it goes out of scope.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace headgate::e2e {

inline constexpr std::chrono::seconds kPatience{60};

class Program {
 public:
  // `extra` is added to this process's environment. The program's stdin is a pipe that is open until close_stdin().
  Program(const std::vector<std::string>& words, const std::map<std::string, std::string>& extra);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Returns a line of stdout without its newline; empty if the program ended or nothing came in time.
  std::string line(std::chrono::seconds patience = kPatience);
  void say(const std::string& line);  // with a newline, to its stdin
  void close_stdin();
  void kill_now();
  // Returns the exit status, or 128 + signal; -1 if it had to be killed because it did not end in time.
  int wait();
  // Returns all that it wrote to stderr; call it after wait().
  [[nodiscard]] std::string errors();
  std::string errors_so_far();  // of a running program: what came since the last call

 private:
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  int status_ = 0;
  bool waited_ = false;
  std::string pending_;
};

// A new empty directory, removed with its contents at the end.
class Directory {
 public:
  Directory();
  explicit Directory(const std::filesystem::path& parent);
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace headgate::e2e
