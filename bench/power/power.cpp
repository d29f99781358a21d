// What the API of zeusd costs above the GPU library: its server in this process, over GPUs that answer at once, and clients on its
// Unix socket. Prints figures and fails nothing. The first row is the same exchange of bytes without headgate, on this machine, now.
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "api/zeusd.hpp"
#include "base/unique_fd.hpp"
#include "http/server.hpp"
#include "power/recording_manager.hpp"

namespace headgate::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kCalls = 5'000, kFollowers = 100, kSilent = 100;
constexpr std::chrono::seconds kStream{5};

double us_since(Clock::time_point then) {
  return std::chrono::duration<double, std::micro>(Clock::now() - then).count();
}

void print_times(const char* what, std::vector<double> us) {
  std::ranges::sort(us);
  const auto at = [&us](double part) {
    return us[static_cast<std::size_t>(part * static_cast<double>(us.size() - 1))];
  };
  std::printf("%-52s p50 %7.1f us   p99 %7.1f us   (%zu calls)\n", what, at(0.5), at(0.99), us.size());
}

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

// One exchange on a connection that is kept; the answers of these requests have no body.
bool exchange_on(int fd, const std::string& request) {
  char answer[1024];
  if (::write(fd, request.data(), request.size()) != static_cast<ssize_t>(request.size())) return false;
  std::size_t had = 0;
  while (had < sizeof answer) {
    const ssize_t bytes = ::read(fd, answer + had, sizeof answer - had);
    if (bytes <= 0) return false;
    had += static_cast<std::size_t>(bytes);
    if (std::string_view(answer, had).contains("\r\n\r\n"))
      return std::string_view(answer, had).starts_with("HTTP/1.1 200");
  }
  return false;
}

std::string post(const std::string& target) {
  return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
}

void floor_row(std::size_t request_bytes) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
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
  print_times("noise: the same bytes there and back, two threads", us);
}

// CPU seconds of a thread so far.
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

long resident_kib() {
  std::ifstream file("/proc/self/statm");
  long pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE) / 1024;
}

void stream_rows(const std::string& path, pthread_t loop, power::Recording& gpu) {
  std::vector<UniqueFd> followers;
  for (int i = 0; i < kFollowers; ++i) {
    followers.push_back(connect_to(path));
    const std::string request = "GET /gpu/stream_power?gpu_ids=0 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (::write(followers.back().get(), request.data(), request.size()) < 0) return;
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
  std::printf("%-52s %.2f %% of a core (its loop %.2f %%), %.0f KiB/s read\n", "stream at 20 Hz to 100 clients",
              served / seconds * 100, loop_part / seconds * 100, static_cast<double>(bytes_read) / 1024 / seconds);
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
  floor_row(blocking.size());
  const UniqueFd client = connect_to(path);
  std::vector<double> us;
  for (int i = 0; i < kCalls; ++i) {
    const auto began = Clock::now();
    if (!exchange_on(client.get(), blocking)) break;
    us.push_back(us_since(began));
  }
  print_times("blocking set, one GPU, kept connection", us);
  const auto began = Clock::now();
  int accepted = 0;
  while (accepted < kCalls && exchange_on(client.get(), at_once)) ++accepted;
  std::printf("%-52s %.0f a second (%d)\n", "non-blocking sets accepted, one connection",
              accepted / (us_since(began) / 1e6), accepted);
  stream_rows(path, serving.native_handle(), gpus[0]);

  const long before_kib = resident_kib();
  gpus[0].shut();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < kSilent; ++i) {
    silent.push_back(connect_to(path));
    const std::string request = "GET /gpu/stream_power HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (::write(silent.back().get(), request.data(), request.size()) < 0) break;
  }
  int taken = 0;
  for (int i = 0; i < 10'000; ++i) {
    gpus[0].set_power(static_cast<std::uint32_t>(100'000 + i));
    taken += exchange_on(client.get(), i % 2 == 0 ? at_once : post("/gpu/reset_locked_clocks?gpu_ids=0&block=false"));
  }
  std::printf("%-52s %ld KiB (%d accepted)\n", "growth: 10,000 commands queued, 100 clients never read",
              resident_kib() - before_kib, taken);
  gpus[0].open();
  silent.clear();
  loop.stop();
  serving.join();
  server.stop();
  ::rmdir(folder.c_str());
  return 0;
}

}  // namespace
}  // namespace headgate::bench

int main() { return headgate::bench::run(); }
