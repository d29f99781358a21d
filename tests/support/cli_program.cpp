#include "cli_program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace headgate::e2e {
namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void redirect(const std::string& path, int to) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(fd, to);
  ::close(fd);
}

}  // namespace

Cli::Cli() : directory_((std::filesystem::temp_directory_path() / "headgate-cli-XXXXXX").string()) {
  if (::mkdtemp(directory_.data()) == nullptr) std::abort();
  runtime_ = directory_ + "/run";
}

Cli::~Cli() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

Said Cli::shell(const std::string& line) const {
  const std::string out = directory_ + "/stdout", err = directory_ + "/stderr";
  const std::string runtime = "HEADGATE_RUNTIME_DIR=" + runtime_;
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    redirect(out, STDOUT_FILENO);
    redirect(err, STDERR_FILENO);
    const char* argv[] = {"sh", "-c", line.c_str(), nullptr};
    const std::string directory = "D=" + directory_;
    const char* envp[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                          "H=" HEADGATE_COMMAND,
                          "SIM=" SIMULATOR_DIR,
                          runtime.c_str(),
                          directory.c_str(),
                          nullptr};
    ::execve("/bin/sh", const_cast<char* const*>(argv), const_cast<char* const*>(envp));
    ::_exit(99);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(out), content(err)};
}

bool may_mount() { return std::system("unshare -m true 2>/dev/null") == 0; }

}  // namespace headgate::e2e
