// Allocates device memory as requested and prints the driver's result for each allocation.
#include <cinttypes>
#include <cstdio>
#include <vector>

#include "client.hpp"

namespace headgate::tenant {
namespace {

constexpr const char* kAbout =
    "tenant-memory [SIZE...]: allocates each SIZE (bytes, KiB, MiB, GiB) in turn and prints one line of JSON:\n"
    "  "
    "{\"ok\":true,\"total\":B,\"free_before\":B,\"free_after\":B,\"allocations\":[{\"bytes\":B,\"result\":\"CUDA_"
    "SUCCESS\"},...]}\n"
    "free_after is read while everything is held. ok is about start and freeing; a refused allocation is an answer, "
    "not a failure.\n";

struct Allocation {
  std::uint64_t bytes;
  abi::CUdeviceptr pointer = 0;
  abi::CUresult result = abi::CUDA_SUCCESS;
};

struct Sizes {
  std::size_t free = 0, total = 0;
};

Sizes sizes(const Driver& driver) {
  Sizes read;
  if (driver.cuMemGetInfo_v2(&read.free, &read.total) != abi::CUDA_SUCCESS) read = {};
  return read;
}

int run(const Options& options) {
  const Client client = start(options, 0, false);
  if (!client.ok()) return report_failure(client);
  const Driver& driver = client.driver;
  const Sizes before = sizes(driver);
  std::vector<Allocation> allocations;
  for (std::uint64_t repeat = options.number("--repeat", 1, 1'000'000); repeat > 0; --repeat) {
    for (const std::string& size : options.rest()) {
      Allocation made{.bytes = parse_bytes(size)};
      made.result = options.flag("--managed") ? driver.cuMemAllocManaged(&made.pointer, made.bytes, 1)
                                              : driver.cuMemAlloc_v2(&made.pointer, made.bytes);
      if (made.result == abi::CUDA_SUCCESS && options.flag("--touch"))
        made.result = driver.cuMemsetD8_v2(made.pointer, 0xa5, made.bytes);
      allocations.push_back(made);
    }
  }
  const Sizes after = sizes(driver);
  std::printf("{\"ok\":true,\"total\":%zu,\"free_before\":%zu,\"free_after\":%zu,\"allocations\":[", before.total,
              before.free, after.free);
  const char* comma = "";
  for (const Allocation& made : allocations) {
    std::printf("%s{\"bytes\":%" PRIu64 ",\"result\":\"%s\"}", comma, made.bytes, result_name(made.result).c_str());
    comma = ",";
  }
  std::printf("]}\n");
  std::fflush(stdout);
  if (options.flag("--hold")) hold(options.number("--hold-ms", 0, 3'600'000));
  else if (options.flag("--hold-ms")) hold(options.number("--hold-ms", 0, 3'600'000));
  if (options.flag("--leak")) return 0;
  int status = 0;
  for (const Allocation& made : allocations) {
    if (made.pointer != 0 && driver.cuMemFree_v2(made.pointer) != abi::CUDA_SUCCESS) status = 1;
  }
  if (driver.cuDevicePrimaryCtxRelease_v2(client.device) != abi::CUDA_SUCCESS) status = 1;
  return status;
}

}  // namespace
}  // namespace headgate::tenant

int main(int argc, char** argv) {
  using headgate::tenant::Options;
  return headgate::tenant::run(Options(argc, argv, headgate::tenant::kAbout,
                                       {{"--hold", nullptr, "after the line, hold everything until stdin is closed"},
                                        {"--hold-ms", "N", "after the line, hold everything for N milliseconds"},
                                        {"--repeat", "N", "go through the sizes N times (default 1)"},
                                        {"--managed", nullptr, "cuMemAllocManaged instead of cuMemAlloc"},
                                        {"--touch", nullptr, "write every byte"},
                                        {"--leak", nullptr, "exit without freeing"}}));
}
