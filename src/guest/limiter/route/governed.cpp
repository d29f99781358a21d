#include "guest/limiter/route/governed.hpp"

#include "guest/limiter/route/driver.hpp"
#include "guest/limiter/route/kinds.hpp"

extern "C" {
#define CU_FN(name, kind, since, parameters, arguments) HEADGATE_GOVERNED_##kind(headgate::abi::name##_t name;)
#include "guest/abi/cuda_table.def"
#define NVML_FN(name, kind, parameters, arguments) HEADGATE_GOVERNED_##kind(headgate::abi::name##_t name;)
#include "guest/abi/nvml_table.def"
}

namespace headgate::limiter {
namespace {

// reinterpret_cast is not a constant expression, but the compiler fills both arrays without code. The link contract's
// test asserts that the library has no constructor.
const Governed kCuda[] = {
#define CU_FN(name, kind, since, parameters, arguments) \
  HEADGATE_GOVERNED_##kind(                             \
      {#name, reinterpret_cast<void*>(&::name), reinterpret_cast<void* const*>(&driver.name), false}, )
#include "guest/abi/cuda_table.def"
};

const Governed kNvml[] = {
#define NVML_FN(name, kind, parameters, arguments) \
  HEADGATE_GOVERNED_##kind(                        \
      {#name, reinterpret_cast<void*>(&::name), reinterpret_cast<void* const*>(&nvml.name), true}, )
#include "guest/abi/nvml_table.def"
};

const Governed* find(std::span<const Governed> list, std::string_view name) {
  std::size_t low = 0, high = list.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (std::string_view(list[middle].name) < name) low = middle + 1;
    else high = middle;
  }
  return low < list.size() && list[low].name == name ? &list[low] : nullptr;
}

}  // namespace

std::span<const Governed> governed_cuda() { return kCuda; }

const Governed* find_governed(std::string_view name) {
  if (name.starts_with("cu")) return find(kCuda, name);
  if (name.starts_with("nvml")) return find(kNvml, name);
  return nullptr;
}

}  // namespace headgate::limiter
