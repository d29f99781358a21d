// Keeps a GPU busy with kernels of known length, and prints how many were launched and completed.
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <thread>
#include <vector>

#include "client.hpp"

namespace headgate::tenant {
namespace {

constexpr const char* kAbout =
    "tenant-launch: launches kernels of --us microseconds, --depth of them before each synchronise, from --threads "
    "threads on --streams\n"
    "streams each, until --ms have passed or --kernels were launched. Prints one line of JSON:\n"
    "  {\"ok\":true,\"kernels\":N,\"elapsed_ns\":NS,\"kernel_ns\":NS}\n"
    "kernel_ns is kernels times their length: on one stream what the GPU worked for this program.\n";

struct Plan {
  std::uint32_t us;
  std::uint64_t deadline_ns, kernels, depth, streams, blocks;
};

struct Outcome {
  std::atomic<std::uint64_t> launched{0}, completed{0};
  std::atomic<unsigned> result{0};
};

void work(const Client& client, const Plan& plan, abi::CUdeviceptr mark, Outcome& outcome) {
  const Driver& driver = client.driver;
  const auto ok = [&](abi::CUresult result) {
    unsigned none = 0;
    if (result != abi::CUDA_SUCCESS) outcome.result.compare_exchange_strong(none, result);
    return result == abi::CUDA_SUCCESS;
  };
  if (!ok(driver.cuCtxSetCurrent(client.context))) return;
  std::vector<abi::CUstream> streams(plan.streams);
  for (abi::CUstream& stream : streams) {
    if (!ok(driver.cuStreamCreate(&stream, abi::CU_STREAM_NON_BLOCKING))) return;
  }
  std::uint32_t us = plan.us;
  void* arguments[] = {&mark, &us};
  while (now_ns() < plan.deadline_ns && outcome.result == 0) {
    std::uint64_t mine = 0;
    for (std::uint64_t i = 0; i < plan.depth && outcome.launched.fetch_add(1) < plan.kernels; ++i) {
      if (!ok(client.launch(client.busy, streams[i % streams.size()], arguments, static_cast<unsigned>(plan.blocks))))
        return;
      ++mine;
    }
    for (abi::CUstream stream : streams) {
      if (!ok(driver.cuStreamSynchronize(stream))) return;
    }
    outcome.completed += mine;
    if (mine < plan.depth) break;
  }
  for (abi::CUstream stream : streams) ok(driver.cuStreamDestroy_v2(stream));
}

int run(const Options& options) {
  const Client client = start(options);
  if (!client.ok()) return report_failure(client);
  abi::CUdeviceptr mark = 0;
  Outcome outcome;
  outcome.result = client.driver.cuMemAlloc_v2(&mark, 4);
  const std::uint64_t begin = now_ns();
  const Plan plan{.us = static_cast<std::uint32_t>(options.number("--us", 200, 60'000'000)),
                  .deadline_ns = begin + options.number("--ms", 1000, 3'600'000) * 1'000'000,
                  .kernels = options.number("--kernels", UINT64_MAX >> 1, UINT64_MAX >> 1),
                  .depth = options.number("--depth", 16, 1'000'000),
                  .streams = options.number("--streams", 1, 1024),
                  .blocks = options.number("--blocks", 1, 1'000'000)};
  if (plan.streams == 0 || plan.depth == 0 || plan.blocks == 0)
    return std::fprintf(stderr, "--streams, --depth and --blocks are at least 1\n"), 2;
  std::vector<std::thread> threads;
  for (std::uint64_t i = options.number("--threads", 1, 256); i > 0 && outcome.result == 0; --i) {
    threads.emplace_back([&] { work(client, plan, mark, outcome); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::uint64_t elapsed = now_ns() - begin, kernels = outcome.completed;
  if (outcome.result != 0) {
    std::printf("{\"ok\":false,\"call\":\"launch\",\"result\":\"%s\",\"kernels\":%" PRIu64 "}\n",
                result_name(static_cast<abi::CUresult>(outcome.result.load())).c_str(), kernels);
    return 1;
  }
  std::printf("{\"ok\":true,\"kernels\":%" PRIu64 ",\"elapsed_ns\":%" PRIu64 ",\"kernel_ns\":%" PRIu64 "}\n", kernels,
              elapsed, kernels * plan.us * 1000);
  return 0;
}

}  // namespace
}  // namespace headgate::tenant

int main(int argc, char** argv) {
  using headgate::tenant::Options;
  return headgate::tenant::run(Options(argc, argv, headgate::tenant::kAbout,
                                       {{"--us", "N", "length of a kernel (default 200)"},
                                        {"--ms", "N", "launch for so long (default 1000)"},
                                        {"--kernels", "N", "launch at most so many"},
                                        {"--depth", "N", "launches before each synchronise (default 16)"},
                                        {"--streams", "N", "streams of a thread (default 1)"},
                                        {"--threads", "N", "threads (default 1)"},
                                        {"--blocks", "N", "blocks of a kernel, one SM each (default 1)"}}));
}
