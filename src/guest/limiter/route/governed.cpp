#include "guest/limiter/route/governed.hpp"

#include <algorithm>

#include "guest/limiter/route/driver.hpp"

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
  const auto at =
      std::ranges::lower_bound(list, name, {}, [](const Governed& one) { return std::string_view(one.name); });
  return at != list.end() && at->name == name ? &*at : nullptr;
}

}  // namespace

std::span<const Governed> governed_cuda() { return kCuda; }

const Governed* find_governed(std::string_view name) {
  if (name.starts_with("cu")) return find(kCuda, name);
  if (name.starts_with("nvml")) return find(kNvml, name);
  return nullptr;
}

}  // namespace headgate::limiter
