// Cost of the zeusd API on top of the GPU library: the server runs in this process with GPUs that reply at once;
// clients use its Unix socket. Prints figures as JSON. The first is the same exchange of bytes without headgate.
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "api/zeusd.hpp"
#include "base/unique_fd.hpp"
#include "http/server.hpp"
#include "power/test_recording_manager.hpp"
#include "wire.hpp"

namespace headgate::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
constexpr int kCalls = 5'000, kFollowers = 100, kSilent = 100;
constexpr std::chrono::seconds kStream{5};

double us_since(Clock::time_point then) {
  return std::chrono::duration<double, std::micro>(Clock::now() - then).count();
}

Json times_of(std::vector<double> us) {
  if (us.empty()) return nullptr;
  std::ranges::sort(us);
  const auto at = [&us](double part) {
    return us[static_cast<std::size_t>(part * static_cast<double>(us.size() - 1))];
  };
  return {{"p50_us", at(0.5)}, {"p99_us", at(0.99)}, {"calls", us.size()}};
}

// Sends the same number of bytes both ways between two threads.
Json floor_of(std::size_t request_bytes) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return nullptr;
  const UniqueFd near(ends[0]);
  UniqueFd far(ends[1]);
  std::thread echo([&far] {
    char bytes[512];
    for (ssize_t count; (count = ::read(far.get(), bytes, sizeof bytes)) > 0;)
      if (::write(far.get(), bytes, static_cast<std::size_t>(count)) != count) return;
  });
  std::vector<double> us;
  std::string bytes(request_bytes, 'x');
  for (int i = 0; i < kCalls; ++i) {
    const auto began = Clock::now();
    if (::write(near.get(), bytes.data(), bytes.size()) < 0 || ::read(near.get(), bytes.data(), bytes.size()) <= 0)
      break;
    us.push_back(us_since(began));
  }
  ::shutdown(near.get(), SHUT_RDWR);
  echo.join();
  return times_of(std::move(us));
}

// Returns a thread's CPU seconds so far.
double cpu_of(pthread_t thread) {
  clockid_t clock{};
  timespec used{};
  if (::pthread_getcpuclockid(thread, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

double process_cpu() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

long resident_bytes() {
  std::ifstream file("/proc/self/statm");
  long pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

Json stream_of(const std::string& path, pthread_t loop, power::Recording& gpu) {
  std::vector<UniqueFd> followers;
  for (int i = 0; i < kFollowers; ++i) {
    followers.push_back(connect_to(path));
    const std::string request = get("/gpu/stream_power?gpu_ids=0");
    if (::write(followers.back().get(), request.data(), request.size()) < 0) return nullptr;
  }
  std::atomic<bool> over = false;
  std::atomic<std::uint64_t> bytes_read = 0;
  std::thread reader([&] {
    char bytes[4096];
    while (!over) {
      for (const UniqueFd& one : followers) {
        const ssize_t count = ::recv(one.get(), bytes, sizeof bytes, MSG_DONTWAIT);
        if (count > 0) bytes_read += static_cast<std::uint64_t>(count);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const double reader_before = cpu_of(reader.native_handle()), all_before = process_cpu(), loop_before = cpu_of(loop);
  const auto began = Clock::now();
  for (std::uint32_t watts = 100; Clock::now() - began < kStream; ++watts) {
    gpu.set_power(watts * 1000);
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  const double served = (process_cpu() - all_before) - (cpu_of(reader.native_handle()) - reader_before);
  const double loop_part = cpu_of(loop) - loop_before;
  over = true;
  reader.join();
  return {{"core_percent", served / seconds * 100},
          {"loop_percent", loop_part / seconds * 100},
          {"read_bytes_per_s", static_cast<double>(bytes_read) / seconds}};
}

int run() {
  std::string folder = "/tmp/headgate-bench-power-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const std::string path = folder + "/s";
  std::deque<power::Recording> gpus;
  gpus.emplace_back(0);
  power::ControlQueues queues(power::recording_managers(gpus), [](const power::Executed&) {});
  power::Rapl rapl(folder);
  http::Loop loop;
  api::ZeusdOptions options;
  options.groups = {power::ApiGroup::gpu_control, power::ApiGroup::gpu_read, power::ApiGroup::cpu_read};
  api::Zeusd zeusd(loop, queues, rapl, std::move(options));
  http::ServerLimits limits;
  limits.connections = limits.connections_per_uid = 1024;
  http::Server server(loop, zeusd.routes(), std::move(limits));
  if (!server.listen(http::UnixListener{.path = path})) return 1;
  std::thread serving([&loop] { loop.run(); });

  const std::string blocking = post("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=true");
  const std::string at_once = post("/gpu/set_power_limit?gpu_ids=0&power_limit_mw=200000&block=false");
  Json figures = {{"noise", floor_of(blocking.size())}};
  const UniqueFd client = connect_to(path);
  std::vector<double> us;
  for (int i = 0; i < kCalls; ++i) {
    const auto began = Clock::now();
    if (!exchange_on(client.get(), blocking)) break;
    us.push_back(us_since(began));
  }
  figures["blocking"] = times_of(std::move(us));
  const auto began = Clock::now();
  int accepted = 0;
  while (accepted < kCalls && exchange_on(client.get(), at_once)) ++accepted;
  figures["at_once"] = {{"per_s", accepted / (us_since(began) / 1e6)}, {"accepted", accepted}};
  figures["stream"] = stream_of(path, serving.native_handle(), gpus[0]);

  const long before_bytes = resident_bytes();
  gpus[0].shut();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < kSilent; ++i) {
    silent.push_back(connect_to(path));
    const std::string request = get("/gpu/stream_power");
    if (::write(silent.back().get(), request.data(), request.size()) < 0) break;
  }
  int taken = 0;
  for (int i = 0; i < 10'000; ++i) {
    gpus[0].set_power(static_cast<std::uint32_t>(100'000 + i));
    taken += exchange_on(client.get(), i % 2 == 0 ? at_once : post("/gpu/reset_locked_clocks?gpu_ids=0&block=false"));
  }
  figures["queued"] = {{"growth_bytes", resident_bytes() - before_bytes}, {"accepted", taken}};
  gpus[0].open();
  silent.clear();
  loop.stop();
  serving.join();
  server.stop();
  ::rmdir(folder.c_str());
  std::cout << figures.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace headgate::bench

int main() { return headgate::bench::run(); }
