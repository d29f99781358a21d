// Primary contexts, retained and released by one thread or two at the same time.
#pragma once

#include <atomic>
#include <barrier>
#include <cstdint>
#include <functional>
#include <thread>

#include "support/driver_call.hpp"

namespace headgate::e2e {

using namespace abi;

inline CUresult retain_primary(CUdevice on) {
  CUcontext context = nullptr;
  return CALL(cuDevicePrimaryCtxRetain)(&context, on);
}

inline CUresult retain_primary_twice(CUdevice on) {
  std::barrier both(2);
  CUresult results[2] = {};
  const auto retain = [&](CUresult& result) {
    both.arrive_and_wait();
    result = retain_primary(on);
  };
  {
    const std::jthread one(retain, std::ref(results[0])), two(retain, std::ref(results[1]));
  }
  return results[0] != CUDA_SUCCESS ? results[0] : results[1];
}

inline CUresult race_primary(std::uint64_t rounds) {
  std::atomic<unsigned> wrong{0};
  for (std::uint64_t i = 0; i < rounds; ++i) {
    if (retain_primary(1) != CUDA_SUCCESS || retain_primary(1) != CUDA_SUCCESS) return CUDA_ERROR_UNKNOWN;
    std::barrier both(2);
    const auto release = [&] {
      both.arrive_and_wait();
      if (CALL(cuDevicePrimaryCtxRelease_v2)(1) != CUDA_SUCCESS) ++wrong;
    };
    const std::jthread one(release), two(release);
  }
  return wrong == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

}  // namespace headgate::e2e
