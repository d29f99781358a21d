#include "sim_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>

extern char** environ;

namespace headgate::e2e {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> environment_with(const std::map<std::string, std::string>& extra) {
  std::vector<std::string> made;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!extra.contains(text.substr(0, text.find('=')))) made.push_back(text);
  }
  for (const auto& [name, value] : extra) made.push_back(name + "=" + value);
  return made;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> made;
  for (std::string& word : words) made.push_back(word.data());
  made.push_back(nullptr);
  return made;
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

}  // namespace

Program::Program(const std::vector<std::string>& words, const std::map<std::string, std::string>& extra) {
  int in[2], out[2], err[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0)
    throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  std::vector<std::string> arguments = words, variables = environment_with(extra);
  const int failed =
      ::posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, pointers(arguments).data(), pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]), ::close(out[1]), ::close(err[1]);
  in_ = in[1], out_ = out[0], err_ = err[0];
  if (failed != 0) throw std::runtime_error("cannot start " + words[0]);
}

Program::~Program() {
  if (!waited_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  close_stdin();
  ::close(out_), ::close(err_);
}

std::string Program::line(std::chrono::seconds patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      std::string made = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return made;
    }
    pollfd ready{out_, POLLIN, 0};
    if (::poll(&ready, 1, milliseconds_until(deadline)) <= 0) return {};
    char bytes[4096];
    const ssize_t got = ::read(out_, bytes, sizeof bytes);
    if (got <= 0) return {};
    pending_.append(bytes, static_cast<std::size_t>(got));
  }
}

void Program::say(const std::string& line) {
  const std::string bytes = line + "\n";
  [[maybe_unused]] const ssize_t written = ::write(in_, bytes.data(), bytes.size());
}

void Program::close_stdin() {
  if (in_ >= 0) ::close(in_);
  in_ = -1;
}

void Program::kill_now() { ::kill(pid_, SIGKILL); }

int Program::wait() {
  if (waited_) return status_;
  close_stdin();
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  pollfd ended{pidfd, POLLIN, 0};
  const bool in_time = ::poll(&ended, 1, milliseconds_until(Clock::now() + kPatience)) > 0;
  ::close(pidfd);
  if (!in_time) ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  waited_ = true;
  status_ = !in_time ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

std::string Program::errors() {
  std::string made;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::read(err_, bytes, sizeof bytes)) > 0;)
    made.append(bytes, static_cast<std::size_t>(got));
  return made;
}

std::string Program::errors_so_far() {
  std::string made;
  char bytes[4096];
  for (pollfd ready{.fd = err_, .events = POLLIN, .revents = 0}; ::poll(&ready, 1, 0) > 0;) {
    const ssize_t got = ::read(err_, bytes, sizeof bytes);
    if (got <= 0) break;
    made.append(bytes, static_cast<std::size_t>(got));
  }
  return made;
}

Directory::Directory() : Directory(std::filesystem::temp_directory_path()) {}

Directory::Directory(const std::filesystem::path& parent) {
  std::string pattern = (parent / "headgate-e2e-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
  path_ = pattern;
}

Directory::~Directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace headgate::e2e
