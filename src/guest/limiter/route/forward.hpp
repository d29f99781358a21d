// Calls from a hook to the real function behind it.
#pragma once

#include <type_traits>

#include "guest/limiter/route/driver.hpp"
#include "guest/limiter/route/presence.hpp"

namespace headgate::limiter {

template <typename Function>
struct ReturnOf;
template <typename Result, typename... Arguments>
struct ReturnOf<Result(Arguments...)> {
  using Type = Result;
};

// What a hook returns if the loaded library lacks the function.
template <typename Result>
inline constexpr Result kMissing{};
template <>
inline constexpr abi::CUresult kMissing<abi::CUresult> = abi::CUDA_ERROR_NOT_FOUND;
template <>
inline constexpr abi::nvmlReturn_t kMissing<abi::nvmlReturn_t> = abi::NVML_ERROR_FUNCTION_NOT_FOUND;

// real(driver.cuX) or real(nvml.nvmlX): loads the library at first use; returns nullptr if it lacks the function.
template <typename Function>
inline Function* real(Function* const& slot) {
  if constexpr (std::is_same_v<typename ReturnOf<Function>::Type, abi::CUresult>) arrive();
  Function* function = __atomic_load_n(&slot, __ATOMIC_ACQUIRE);
  if (function != nullptr) [[likely]]
    return function;
  if constexpr (std::is_same_v<typename ReturnOf<Function>::Type, abi::CUresult>) load_driver();
  else load_nvml();
  return __atomic_load_n(&slot, __ATOMIC_ACQUIRE);
}

// Calls the real function, or returns kMissing.
template <typename Function, typename... Arguments>
inline auto forward(Function* const& slot, Arguments... arguments) {
  Function* function = real(slot);
  if (function == nullptr) [[unlikely]]
    return kMissing<typename ReturnOf<Function>::Type>;
  return function(arguments...);
}

}  // namespace headgate::limiter
