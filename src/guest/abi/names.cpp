#include "guest/abi/names.hpp"

#include <algorithm>
#include <cstddef>

namespace headgate::abi {
namespace {

constexpr Name kCuda[] = {
#define CU_FN(name, kind, since, parameters, arguments) {#name, Kind::kind, true, since},
#define CU_NAME(name, kind, since) {#name, Kind::kind, false, since},
#define CU_DATA(name) {#name, Kind::data, false, 0},
#include "guest/abi/cuda_table.def"
};

constexpr Name kNvml[] = {
#define NVML_FN(name, kind, parameters, arguments) {#name, Kind::kind, true, 0},
#define NVML_NAME(name, kind) {#name, Kind::kind, false, 0},
#include "guest/abi/nvml_table.def"
};

static_assert(std::ranges::is_sorted(kCuda, std::ranges::less_equal{}, &Name::name) &&
                  std::ranges::is_sorted(kNvml, std::ranges::less_equal{}, &Name::name),
              "keep the tables in byte order, without duplicates");

// The names that are not less than `name`.
std::span<const Name> from(std::span<const Name> names, std::string_view name) {
  const auto at = std::ranges::lower_bound(names, name, {}, &Name::name);
  return names.subspan(static_cast<std::size_t>(at - names.begin()));
}

const Name* find(std::span<const Name> names, std::string_view name) {
  const auto rest = from(names, name);
  return !rest.empty() && rest.front().name == name ? &rest.front() : nullptr;
}

}  // namespace

std::span<const Name> cuda_names() { return kCuda; }
std::span<const Name> nvml_names() { return kNvml; }
std::span<const Name> cuda_names_from(std::string_view prefix) {
  const auto rest = from(kCuda, prefix);
  std::size_t count = 0;
  while (count < rest.size() && rest[count].name.starts_with(prefix)) ++count;
  return rest.first(count);
}
const Name* find_cuda(std::string_view name) { return find(kCuda, name); }
const Name* find_nvml(std::string_view name) { return find(kNvml, name); }

}  // namespace headgate::abi
