#include "guest/limiter/view/memory_view.hpp"

namespace headgate::limiter {
namespace {

std::uint64_t at_most(std::uint64_t value, std::uint64_t bound) { return value < bound ? value : bound; }

}  // namespace

MemoryView memory_view(std::uint64_t real_total, std::uint64_t real_free, std::uint64_t limit, std::uint64_t used) {
  const std::uint64_t total = at_most(limit, real_total);
  return {total, at_most(used < total ? total - used : 0, real_free)};
}

}  // namespace headgate::limiter
