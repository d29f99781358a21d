#include "limiter_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace headgate::e2e {
namespace {

constexpr int kDeadlineMs = 20'000;

std::string probe(const Tenant& tenant) {
  if (!tenant.program.empty()) return std::string(LIMITER_TESTS_DIR) + "/" + tenant.program;
  return std::string(LIMITER_TESTS_DIR) + (tenant.linked ? "/limiter_probe_linked" : "/limiter_probe");
}

std::vector<std::string> environment_of(const Tenant& tenant, const std::string& runtime) {
  const std::string tests = LIMITER_TESTS_DIR;
  const std::string driver = tenant.driver == Driver::simulated ? std::string(LIMITER_SIMULATOR)
                             : tenant.driver == Driver::none
                                 ? tests + "/no-driver"
                                 : tests + (tenant.driver == Driver::quiet ? "/quiet" : "/quiet-old");
  Environment all = tenant.environment;
  all["LD_LIBRARY_PATH"] = driver + ":" + tests;
  all.emplace("HEADGATE_RUNTIME_DIR", runtime);
  if (tenant.driver == Driver::simulated) all.emplace("HEADGATE_SIM_DIR", runtime + "-node");
  all.emplace("HEADGATE_SIM_PROFILE", "h200-cuda13");  // a driver that has all functions
  if (tenant.limited) all["LD_PRELOAD"] = tenant.preload_before + ":" + LIMITER_LIBRARY + ":" + tenant.preload_after;
  std::vector<std::string> lines;
  for (const auto& [name, value] : all) lines.push_back(name + "=" + value);
  return lines;
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

Runtime::Runtime() {
  char name[] = "/tmp/headgate-limiter-XXXXXX";
  if (mkdtemp(name) == nullptr) std::abort();
  path_ = name;
  std::filesystem::create_directory(path_ + "/run-node");
}

Runtime::~Runtime() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Runtime::Running Runtime::start(const Tenant& tenant, const std::vector<std::string>& arguments) const {
  static int runs = 0;
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) std::abort();
  Running running;
  running.err_path_ = path_ + "/stderr-" + std::to_string(++runs);
  std::vector<std::string> command{probe(tenant)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> lines = environment_of(tenant, path_ + "/run");
  const std::vector<char*> argv = pointers(command), envp = pointers(lines);
  running.pid_ = fork();
  if (running.pid_ == 0) {
    const int err = open(running.err_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err, 2);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  running.in_ = in[1];
  running.out_ = out[0];
  return running;
}

std::string Runtime::Running::next_line() {
  std::string line;
  for (;;) {
    pollfd ready{out_, POLLIN, 0};
    if (poll(&ready, 1, kDeadlineMs) <= 0) return line + "<nothing for 20 s>";
    char c = 0;
    if (read(out_, &c, 1) != 1) return line;
    if (c == '\n') return line;
    line += c;
  }
}

void Runtime::Running::say(const std::string& line) {
  [[maybe_unused]] const ssize_t written = write(in_, line.data(), line.size());
}

Outcome Runtime::Running::finish() {
  close(in_);
  Outcome outcome;
  char buffer[4096];
  for (;;) {
    pollfd ready{out_, POLLIN, 0};
    if (poll(&ready, 1, kDeadlineMs) <= 0) {
      ::kill(pid_, SIGKILL);
      outcome.err = "<killed: nothing for 20 s>";
      break;
    }
    const ssize_t size = read(out_, buffer, sizeof buffer);
    if (size <= 0) break;
    outcome.out.append(buffer, static_cast<std::size_t>(size));
  }
  close(out_);
  int status = 0;
  waitpid(pid_, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.err += contents(err_path_);
  return outcome;
}

void Runtime::Running::kill_and_wait() {
  ::kill(pid_, SIGKILL);
  finish();
}

Outcome Runtime::run(const Tenant& tenant, const std::vector<std::string>& arguments) const {
  return start(tenant, arguments).finish();
}

}  // namespace headgate::e2e
