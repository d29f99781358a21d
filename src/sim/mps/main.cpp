// nvidia-cuda-mps-control of the simulated node: with -d the daemon, without options the tool that sends it commands.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "base/unique_fd.hpp"
#include "sim/mps/control.hpp"
#include "sim/mps/wire.hpp"

namespace {

using namespace headgate;

std::string variable(const char* name, const char* usual) {
  const char* const text = ::getenv(name);
  return text != nullptr && *text != 0 ? text : usual;
}

int ready_end = -1;

// The launcher waits for this byte.
void say_listening() {
  const char byte = 'l';
  if (::write(ready_end, &byte, 1) != 1) ::_exit(1);
  ::close(ready_end);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  ::close(null);
}

constexpr const char* kHelp =
    "CUDA MPS Control for Linux/Unix.\n\n  This program allows multiple CUDA processes to share a single GPU "
    "context.\n";

// Returns whether the option asks for multi-user mode and is taken; else prints what the release prints, and exits.
bool takes(const std::string& option, const sim::mps::Manners& manners) {
  if (manners.ignores) return false;
  if (option == (manners.later ? "-M" : "-multiuser-server") && manners.release_555) {
    if (::geteuid() == 0) return true;
    std::fprintf(stderr, "%sOnly root user may enable -multiuser-server!\n", kHelp);
  } else {
    std::fputs(manners.release_555 ? kHelp : "Cannot find MPS control daemon process\n", stderr);
  }
  std::exit(1);
}

int launch(const std::string& pipe, const sim::mps::Manners& manners, bool multi_user) {
  if (manners.hang)
    for (;;) ::pause();
  if (manners.refuse) {
    std::fputs("Failed to start: the stand-in was told to refuse\n", stderr);
    return 1;
  }
  if (manners.deaf) return 0;
  if (const UniqueFd other(sim::mps::connect_to(pipe)); other) {
    std::fputs("An instance of this daemon is already running\n", stderr);
    return 1;
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    ready_end = ends[1];
    ::close(ends[0]);
    const auto ended = sim::mps::run_daemon(pipe, variable("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps"), manners,
                                            multi_user, say_listening);
    if (!ended) std::fprintf(stderr, "%s\n", ended.error().message.c_str());
    ::_exit(ended ? 0 : 1);
  }
  ::close(ends[1]);
  char byte = 0;
  return ::read(ends[0], &byte, 1) == 1 ? 0 : 1;
}

int ask(const std::string& pipe, const sim::mps::Manners& manners) {
  const UniqueFd daemon(sim::mps::connect_to(pipe));
  if (!daemon) {
    std::puts("Cannot find MPS control daemon process");
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) continue;
    if (manners.slow) ::usleep(200'000);
    while (manners.flood) std::puts("flood flood flood flood flood flood flood flood");
    if (::send(daemon.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) return 1;
    std::array<char, sim::mps::kMaxMessage> bytes;
    const ssize_t count = ::recv(daemon.get(), bytes.data(), bytes.size(), 0);
    if (count <= 0) return 0;  // it has quit
    if (count > 1)
      std::cout << std::string(bytes.data() + 1, static_cast<std::size_t>(count - 1)) << "\n" << std::flush;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto manners = sim::mps::manners_from(variable("HEADGATE_SIM_MPS", ""));
  const std::string pipe = variable("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");
  if (argc == 1) return ask(pipe, manners);
  if (argc == 2 && std::string(argv[1]) == "-d") return launch(pipe, manners, false);
  if (argc == 3 && std::string(argv[1]) == "-d") return launch(pipe, manners, takes(argv[2], manners));
  std::fprintf(stderr, "usage: %s [-d [-M | -multiuser-server]]\n", argv[0]);
  return 1;
}
