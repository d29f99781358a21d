#include "guest/abi/names.hpp"

#include <cstddef>

namespace headgate::abi {
namespace {

constexpr Name kCuda[] = {
#define CU_FN(name, kind, parameters, arguments) {#name, Kind::kind, true},
#define CU_NAME(name, kind) {#name, Kind::kind, false},
#define CU_DATA(name) {#name, Kind::data, false},
#include "guest/abi/cuda_table.def"
};

constexpr Name kNvml[] = {
#define NVML_FN(name, kind, parameters, arguments) {#name, Kind::kind, true},
#define NVML_NAME(name, kind) {#name, Kind::kind, false},
#include "guest/abi/nvml_table.def"
};

template <std::size_t N>
constexpr bool sorted(const Name (&names)[N]) {
  for (std::size_t i = 1; i < N; ++i) {
    if (!(names[i - 1].name < names[i].name)) return false;
  }
  return true;
}
static_assert(sorted(kCuda) && sorted(kNvml), "keep the tables in byte order");

const Name* find(std::span<const Name> names, std::string_view name) {
  std::size_t low = 0, high = names.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (names[middle].name < name) low = middle + 1;
    else high = middle;
  }
  return low < names.size() && names[low].name == name ? &names[low] : nullptr;
}

}  // namespace

std::span<const Name> cuda_names() { return kCuda; }
std::span<const Name> nvml_names() { return kNvml; }
const Name* find_cuda(std::string_view name) { return find(kCuda, name); }
const Name* find_nvml(std::string_view name) { return find(kNvml, name); }

}  // namespace headgate::abi
