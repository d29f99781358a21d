// For agent_test: runs a channel on the socket given as argument, with some tasks always open. Writes "STATE
// PAYLOAD=RESULT" for each settled task. Ends when killed or when its output is closed.
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "channel/channel.hpp"
#include "http/server.hpp"

namespace {

using namespace headgate;

void submit(channel::Channel& tasks, unsigned& count) {
  const std::string payload = "\"" + std::to_string(::getpid()) + "." + std::to_string(++count) + "\"";
  (void)tasks.submit({"sched", "admit", payload, std::chrono::seconds(60)}, [&](const channel::Task& task) {
    const std::string line = std::string(word(task.state)) + " " + task.payload + "=" + task.result + "\n";
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(1);
    submit(tasks, count);
  });
}

}  // namespace

int main(int, char** arguments) {
  http::Loop loop;
  channel::Channel tasks(loop, {.authorise = [](const auto&, const auto&) { return Result<void>(); }});
  http::Router router;
  tasks.add_routes(router);
  http::Server server(loop, std::move(router));
  if (auto listening = server.listen(http::UnixListener{.path = arguments[1]}); !listening) {
    std::fprintf(stderr, "%s\n", listening.error().message.c_str());
    return 1;
  }
  unsigned count = 0;
  for (int i = 0; i < 4; ++i) submit(tasks, count);
  loop.run();
}
