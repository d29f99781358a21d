// Cost of control daemons. `headgate-bench-mps TOOL...` prints JSON: for each tool, how long acquire and release take;
// for the first (the stand-in), the cost of eight watched groups and how fast a fault is reported.
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "mps/keeper.hpp"
#include "mps/test_mps.hpp"
#include "sim/mps/wire.hpp"

namespace headgate::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
constexpr int kRounds = 20;
constexpr std::chrono::seconds kWatched{20};

double ms_since(Clock::time_point then) {
  return std::chrono::duration<double, std::milli>(Clock::now() - then).count();
}

Json times_of(std::vector<double> ms) {
  std::ranges::sort(ms);
  return {{"p50_ms", ms[ms.size() / 2]}, {"max_ms", ms.back()}, {"calls", ms.size()}};
}

Json life(const std::string& tool) {
  mps::MpsFolder folder;
  mps::Manager manager(folder.options(tool));
  const mps::Sleeper one, other;
  std::vector<double> first, next, release;
  for (int round = 0; round < kRounds; ++round) {
    auto began = Clock::now();
    if (const auto made = manager.acquire(mps::tenant_of(one)); !made) return {{"error", made.error().message}};
    first.push_back(ms_since(began));
    began = Clock::now();
    if (!manager.acquire(mps::tenant_of(other))) return {{"error", "a second tenant was refused"}};
    next.push_back(ms_since(began));
    manager.release(other.mark());
    began = Clock::now();
    manager.release(one.mark());
    release.push_back(ms_since(began));
  }
  return {{"tool", tool}, {"first", times_of(first)}, {"next", times_of(next)}, {"release", times_of(release)}};
}

double processor_seconds() {
  double sum = 0;
  for (const int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(whose, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime})
      sum += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  }
  return sum;
}

// Starts a process that is a client of the group's server.
pid_t start_client(const std::string& pipe) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int connection = sim::mps::connect_to(pipe);
  const sim::mps::Hello hello;
  ::send(connection, &hello, sizeof hello, MSG_NOSIGNAL);
  for (;;) ::pause();
}

void end(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

Json watch(const std::string& tool) {
  mps::MpsFolder folder;
  mps::Keeper keeper(folder.options(tool));
  if (!keeper.start()) return {{"error", "no keeper"}};
  std::vector<std::unique_ptr<mps::Sleeper>> tenants;
  std::vector<pid_t> clients;
  for (std::uint32_t group = 0; group < 8; ++group) {
    tenants.push_back(std::make_unique<mps::Sleeper>());
    std::promise<bool> made;
    keeper.acquire(mps::tenant_of(*tenants.back(), {}, group),
                   [&](const auto& done) { made.set_value(done.has_value()); });
    if (!made.get_future().get()) return {{"error", "a group was refused"}};
    clients.push_back(start_client(folder.places(group).pipe));
  }
  const double before = processor_seconds();
  const auto began = Clock::now();
  std::this_thread::sleep_for(kWatched);
  const double used = (processor_seconds() - before) / (ms_since(began) / 1e3) * 100;
  for (const pid_t client : clients) end(client);
  tenants.clear();
  while (!keeper.groups().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return {{"core_percent", used}};
}

// Measures from the fault to its event, and from the end of the last client to the next daemon.
Json fault(const std::string& tool) {
  ::setenv("HEADGATE_SIM_MPS", "550", 1);
  mps::MpsFolder folder;
  auto options = folder.options(tool);
  std::promise<void> named, again;
  std::atomic<bool> is_named = false, is_again = false;
  options.tell = [&](const mps::News& news) {
    if (news.kind == "mps.fault" && !is_named.exchange(true)) named.set_value();
    if (news.kind == "mps.restarted" && !is_again.exchange(true)) again.set_value();
  };
  mps::Keeper keeper(std::move(options));
  if (!keeper.start()) return {{"error", "no keeper"}};
  const mps::Sleeper tenant;
  std::promise<void> made;
  keeper.acquire(mps::tenant_of(tenant), [&](const auto&) { made.set_value(); });
  made.get_future().wait();
  const pid_t client = start_client(folder.places().pipe);
  while (keeper.groups().at(0).clients.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  auto began = Clock::now();
  folder.demand("fault");
  named.get_future().wait();
  const double named_ms = ms_since(began);
  began = Clock::now();
  end(client);
  again.get_future().wait();
  ::unsetenv("HEADGATE_SIM_MPS");
  return {{"named_ms", named_ms}, {"restarted_ms", ms_since(began)}};
}

}  // namespace
}  // namespace headgate::bench

int main(int count, char** words) {
  using namespace headgate::bench;
  Json all = {{"life", Json::array()}};
  for (int i = 1; i < count; ++i) all["life"].push_back(life(words[i]));
  if (count > 1) {
    all["fault"] = fault(words[1]);
    all["watch"] = watch(words[1]);
  }
  std::cout << all.dump() << "\n";
}
