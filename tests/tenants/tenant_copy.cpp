// Copies bytes to the device, within it and back, with a kernel in between, and compares every one.
#include <cstdio>
#include <cstring>
#include <vector>

#include "client.hpp"

namespace headgate::tenant {
namespace {

constexpr const char* kAbout =
    "tenant-copy [SIZE...]: for each SIZE (default 1, 4095, 1MiB) copies a pattern in, launches a kernel, copies it "
    "within the device\n"
    "and back, sets a part to 0x5a, and compares every byte. Prints one line of JSON:\n"
    "  {\"ok\":true,\"compared\":BYTES,\"wrong\":0,\"mark\":1}\n"
    "mark is what the kernel stored: 1 on a real driver; a simulated GPU does not execute instructions.\n";

struct Tally {
  std::uint64_t compared = 0, wrong = 0;
  abi::CUresult result = abi::CUDA_SUCCESS;
  const char* call = "";
};

// Each byte depends on its position and the round, so that a shifted or stale copy is detected.
unsigned char pattern(std::size_t i, std::size_t round) {
  return static_cast<unsigned char>((i * 131) ^ (i >> 8) ^ (round * 59 + 7));
}

#define STEP(name, ...)                                                                  \
  do {                                                                                   \
    tally.result = client.driver.name(__VA_ARGS__);                                      \
    if (tally.result != abi::CUDA_SUCCESS) return static_cast<void>(tally.call = #name); \
  } while (false)

void round_trip(const Client& client, std::size_t bytes, std::size_t round, bool async, abi::CUdeviceptr mark,
                Tally& tally) {
  abi::CUdeviceptr first = 0, second = 0;
  abi::CUstream stream = nullptr;
  std::vector<unsigned char> out(bytes), back(bytes, 0xee);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = pattern(i, round);
  STEP(cuMemAlloc_v2, &first, bytes);
  STEP(cuMemAlloc_v2, &second, bytes);
  STEP(cuStreamCreate, &stream, 1);
  if (async) STEP(cuMemcpyHtoDAsync_v2, first, out.data(), bytes, stream);
  else STEP(cuMemcpyHtoD_v2, first, out.data(), bytes);
  std::uint32_t us = 50;
  void* arguments[] = {&mark, &us};
  tally.result = client.launch(client.busy, stream, arguments);
  if (tally.result != abi::CUDA_SUCCESS) return static_cast<void>(tally.call = "cuLaunchKernel");
  STEP(cuStreamSynchronize, stream);
  STEP(cuMemcpyDtoD_v2, second, first, bytes);
  const std::size_t set = bytes / 3;
  if (set > 0) STEP(cuMemsetD8_v2, second, 0x5a, set);
  if (async) {
    STEP(cuCtxSynchronize);
    STEP(cuMemcpyDtoHAsync_v2, back.data(), second, bytes, stream);
    STEP(cuStreamSynchronize, stream);
  } else {
    STEP(cuMemcpyDtoH_v2, back.data(), second, bytes);
  }
  for (std::size_t i = 0; i < bytes; ++i) tally.wrong += back[i] != (i < set ? 0x5a : pattern(i, round));
  tally.compared += bytes;
  STEP(cuStreamDestroy_v2, stream);
  STEP(cuMemFree_v2, first);
  STEP(cuMemFree_v2, second);
}

int run(const Options& options) {
  const Client client = start(options);
  if (!client.ok()) return report_failure(client);
  std::vector<std::string> sizes = options.rest();
  if (sizes.empty()) sizes = {"1", "4095", "1MiB"};
  Tally tally;
  abi::CUdeviceptr mark = 0;
  std::uint32_t marked = 0;
  tally.result = client.driver.cuMemAlloc_v2(&mark, 4);
  tally.call = "cuMemAlloc_v2";
  for (std::size_t i = 0; i < sizes.size() && tally.result == abi::CUDA_SUCCESS; ++i) {
    round_trip(client, parse_bytes(sizes[i]), i, options.flag("--async"), mark, tally);
  }
  if (tally.result == abi::CUDA_SUCCESS) {
    tally.call = "cuMemcpyDtoH_v2";
    tally.result = client.driver.cuMemcpyDtoH_v2(&marked, mark, sizeof marked);
  }
  if (tally.result != abi::CUDA_SUCCESS) {
    std::printf("{\"ok\":false,\"call\":\"%s\",\"result\":\"%s\"}\n", tally.call, result_name(tally.result).c_str());
    return 1;
  }
  std::printf("{\"ok\":%s,\"compared\":%llu,\"wrong\":%llu,\"mark\":%u}\n", tally.wrong == 0 ? "true" : "false",
              static_cast<unsigned long long>(tally.compared), static_cast<unsigned long long>(tally.wrong), marked);
  return tally.wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace headgate::tenant

int main(int argc, char** argv) {
  using headgate::tenant::Options;
  return headgate::tenant::run(
      Options(argc, argv, headgate::tenant::kAbout, {{"--async", nullptr, "the Async copies on a stream"}}));
}
