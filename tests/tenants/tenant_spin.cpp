// Two sides with kernels that spin until the other side's kernel has run. A gate that stops one side's launches until
// the other side is done hangs both. Rounds are queued without a synchronise in between.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client.hpp"

namespace headgate::tenant {
namespace {

constexpr const char* kAbout =
    "tenant-spin: a pair that spins for each other, --rounds times, as two streams, threads, processes or GPUs "
    "(--pair).\n"
    "Round r: side A queues set(a[r]), wait(b[r]); side B queues set(b[r]), wait(a[r]); with --wait-first side B waits "
    "before it sets; with --work-us each side computes for so long before each meeting.\n"
    "Prints one line of JSON: {\"ok\":true,\"pair\":\"streams\",\"rounds\":N,\"elapsed_ns\":NS}\n"
    "A pair that has not met after --timeout-ms prints ok false and exits 1.\n"
    "Processes share flags through CUDA IPC; where the driver has none, through node-wide flag numbers "
    "below 2^32.\n";

// State shared by both sides: 4 bytes per flag, two flags per round.
struct Meeting {
  abi::CUdeviceptr flags = 0;
  std::uint64_t rounds = 0;
  bool wait_first = false;
  std::uint32_t work_us = 0;
  std::uint64_t deadline_ns = 0;

  [[nodiscard]] abi::CUdeviceptr flag(std::uint64_t round, int side) const {
    return flags + 4 * (2 * round + static_cast<std::uint64_t>(side));
  }
};

// Work that both do before they meet. The kernel's mark is not read.
abi::CUresult work(const Client& client, const Meeting& meeting, abi::CUstream stream) {
  if (meeting.work_us == 0) return abi::CUDA_SUCCESS;
  abi::CUdeviceptr mark = meeting.flag(meeting.rounds, 0);
  std::uint32_t us = meeting.work_us;
  void* arguments[] = {&mark, &us};
  return client.launch(client.busy, stream, arguments);
}

// Queues one side's launches, then waits. The driver's wait has no time limit, so poll.
abi::CUresult play(const Client& client, const Meeting& meeting, int side) {
  abi::CUstream stream = nullptr;
  if (auto result = client.driver.cuCtxSetCurrent(client.context); result != abi::CUDA_SUCCESS) return result;
  if (auto result = client.driver.cuStreamCreate(&stream, abi::CU_STREAM_NON_BLOCKING); result != abi::CUDA_SUCCESS)
    return result;
  for (std::uint64_t round = 0; round < meeting.rounds; ++round) {
    abi::CUdeviceptr mine = meeting.flag(round, side), theirs = meeting.flag(round, 1 - side);
    void* set_arguments[] = {&mine};
    void* wait_arguments[] = {&theirs};
    if (const abi::CUresult worked = work(client, meeting, stream); worked != abi::CUDA_SUCCESS) return worked;
    const bool wait_first = meeting.wait_first && side == 1;
    const abi::CUresult first =
        client.launch(wait_first ? client.wait : client.set, stream, wait_first ? wait_arguments : set_arguments);
    if (first != abi::CUDA_SUCCESS) return first;
    const abi::CUresult second =
        client.launch(wait_first ? client.set : client.wait, stream, wait_first ? set_arguments : wait_arguments);
    if (second != abi::CUDA_SUCCESS) return second;
  }
  for (;;) {
    const abi::CUresult result = client.driver.cuStreamQuery(stream);
    if (result != abi::CUDA_ERROR_NOT_READY) return result;
    if (now_ns() > meeting.deadline_ns) return abi::CUDA_ERROR_TIMEOUT;
    ::usleep(200);
  }
}

int report(const std::string& pair, const Meeting& meeting, std::uint64_t begin, abi::CUresult result) {
  std::printf("{\"ok\":%s,\"pair\":\"%s\",\"rounds\":%llu,\"elapsed_ns\":%llu,\"result\":\"%s\"}\n",
              result == abi::CUDA_SUCCESS ? "true" : "false", pair.c_str(),
              static_cast<unsigned long long>(meeting.rounds), static_cast<unsigned long long>(now_ns() - begin),
              result_name(result).c_str());
  std::fflush(stdout);
  // A stuck kernel would also block the driver's teardown.
  std::_Exit(result == abi::CUDA_SUCCESS ? 0 : 1);
}

abi::CUresult first_failure(abi::CUresult a, abi::CUresult b) { return a != abi::CUDA_SUCCESS ? a : b; }

// Both sides from one thread: all launches of A are queued before the first of B.
abi::CUresult play_streams(const Client& client, const Meeting& meeting) {
  abi::CUstream streams[2] = {};
  for (abi::CUstream& stream : streams) {
    if (auto result = client.driver.cuStreamCreate(&stream, abi::CU_STREAM_NON_BLOCKING); result != abi::CUDA_SUCCESS)
      return result;
  }
  for (int side = 0; side < 2; ++side) {
    for (std::uint64_t round = 0; round < meeting.rounds; ++round) {
      abi::CUdeviceptr mine = meeting.flag(round, side), theirs = meeting.flag(round, 1 - side);
      if (const auto worked = work(client, meeting, streams[side]); worked != abi::CUDA_SUCCESS) return worked;
      const bool wait_first = meeting.wait_first && side == 1;
      for (const bool wait : {wait_first, !wait_first}) {
        void* arguments[] = {wait ? &theirs : &mine};
        if (auto result = client.launch(wait ? client.wait : client.set, streams[side], arguments);
            result != abi::CUDA_SUCCESS)
          return result;
      }
    }
  }
  for (abi::CUstream stream : streams) {
    abi::CUresult result = abi::CUDA_ERROR_NOT_READY;
    while ((result = client.driver.cuStreamQuery(stream)) == abi::CUDA_ERROR_NOT_READY) {
      if (now_ns() > meeting.deadline_ns) return abi::CUDA_ERROR_TIMEOUT;
      ::usleep(200);
    }
    if (result != abi::CUDA_SUCCESS) return result;
  }
  return abi::CUDA_SUCCESS;
}

abi::CUresult play_both(const Client& a, const Client& b, const Meeting& meeting) {
  abi::CUresult results[2] = {};
  std::thread other([&] { results[1] = play(b, meeting, 1); });
  results[0] = play(a, meeting, 0);
  other.join();
  return first_failure(results[0], results[1]);
}

// Allocates zeroed flags in device memory, or for two GPUs in host memory that both can access.
abi::CUresult make_flags(const Client& client, Meeting& meeting, bool in_host_memory) {
  const std::size_t bytes = 8 * (meeting.rounds + 1);  // and room for marks
  if (!in_host_memory) {
    if (auto result = client.driver.cuMemAlloc_v2(&meeting.flags, bytes); result != abi::CUDA_SUCCESS) return result;
    return client.driver.cuMemsetD8_v2(meeting.flags, 0, bytes);
  }
  constexpr unsigned kPortableAndMapped = 3;
  void* host = nullptr;
  const abi::CUresult made = client.driver.cuMemHostAlloc(&host, bytes, kPortableAndMapped);
  if (made != abi::CUDA_SUCCESS) return made;
  std::memset(host, 0, bytes);
  return client.driver.cuMemHostGetDevicePointer_v2(&meeting.flags, host, 0);
}

// Tells the other process where the flags are.
struct Invitation {
  std::uint32_t by_number = 0;
  std::uint64_t first_number = 0;
  abi::CUipcMemHandle handle{};
};

// Side 0 owns the memory and invites side 1, which opens it. Neither exits before the other is done, because the memory
// must outlive both.
int run_process(const Options& options, int fd, int side, Meeting meeting) {
  const Client client = start(options);
  if (!client.ok()) return report_failure(client);
  Invitation invitation;
  abi::CUresult result = abi::CUDA_SUCCESS;
  if (side == 0) {
    result = make_flags(client, meeting, false);
    if (result == abi::CUDA_SUCCESS &&
        client.driver.cuIpcGetMemHandle(&invitation.handle, meeting.flags) != abi::CUDA_SUCCESS) {
      invitation.by_number = 1;
      invitation.first_number = static_cast<std::uint64_t>(::getpid()) * 4096 % 0x7fff0000;
      meeting.flags = invitation.first_number;
    }
    if (::send(fd, &invitation, sizeof invitation, 0) != sizeof invitation) return 1;
  } else {
    if (::recv(fd, &invitation, sizeof invitation, MSG_WAITALL) != sizeof invitation) return 1;
    if (invitation.by_number != 0) meeting.flags = invitation.first_number;
    else result = client.driver.cuIpcOpenMemHandle_v2(&meeting.flags, invitation.handle, 1);
  }
  if (result == abi::CUDA_SUCCESS) result = play(client, meeting, side);
  char done = 'd';
  static_cast<void>(::send(fd, &done, 1, MSG_NOSIGNAL));
  static_cast<void>(::recv(fd, &done, 1, 0));
  if (result != abi::CUDA_SUCCESS) std::fprintf(stderr, "side %d: %s\n", side, result_name(result).c_str());
  std::_Exit(result == abi::CUDA_SUCCESS ? 0 : 1);
}

// Runs two children of a parent that never calls the driver, because CUDA does not survive a fork.
int run_processes(const Options& options, const Meeting& meeting, std::uint64_t begin) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return std::perror("socketpair"), 1;
  pid_t children[2];
  for (int side = 0; side < 2; ++side) {
    children[side] = ::fork();
    if (children[side] < 0) return std::perror("fork"), 1;
    if (children[side] == 0) {
      ::close(ends[1 - side]);
      std::exit(run_process(options, ends[side], side, meeting));
    }
  }
  ::close(ends[0]);
  ::close(ends[1]);
  bool all_well = true;
  for (const pid_t child : children) {
    int status = 0;
    all_well = ::waitpid(child, &status, 0) == child && status == 0 && all_well;
  }
  return report("processes", meeting, begin, all_well ? abi::CUDA_SUCCESS : abi::CUDA_ERROR_LAUNCH_FAILED);
}

int run(const Options& options) {
  const std::string pair = options.text("--pair", "streams");
  const std::uint64_t begin = now_ns();
  Meeting meeting;
  meeting.rounds = options.number("--rounds", 10, 400);
  meeting.work_us = static_cast<std::uint32_t>(options.number("--work-us", 0, 1'000'000));
  meeting.wait_first = options.flag("--wait-first");
  meeting.deadline_ns = begin + options.number("--timeout-ms", 30'000, 3'600'000) * 1'000'000;
  if (pair == "processes") return run_processes(options, meeting, begin);
  if (pair != "streams" && pair != "threads" && pair != "gpus") {
    return std::fprintf(stderr, "--pair is '%s', not streams, threads, processes or gpus\n", pair.c_str()), 2;
  }
  const Client first = start(options);
  if (!first.ok()) return report_failure(first);
  abi::CUresult result = make_flags(first, meeting, pair == "gpus");
  if (result != abi::CUDA_SUCCESS) return report(pair, meeting, begin, result);
  if (pair == "streams") return report(pair, meeting, begin, play_streams(first, meeting));
  if (pair == "threads") return report(pair, meeting, begin, play_both(first, first, meeting));
  const Client second = start(options, 1);
  if (!second.ok()) return report_failure(second);
  return report(pair, meeting, begin, play_both(first, second, meeting));
}

}  // namespace
}  // namespace headgate::tenant

int main(int argc, char** argv) {
  using headgate::tenant::Options;
  return headgate::tenant::run(
      Options(argc, argv, headgate::tenant::kAbout,
              {{"--pair", "KIND", "streams (default), threads, processes, gpus (device N and N+1)"},
               {"--rounds", "N", "meetings (default 10, at most 400)"},
               {"--work-us", "N", "a kernel of so long before each meeting (default: none)"},
               {"--wait-first", nullptr, "side B waits before it sets"},
               {"--timeout-ms", "N", "give up after so long (default 30000)"}}));
}
