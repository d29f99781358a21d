#include "guest/limiter/view/memory_view.hpp"

namespace headgate::limiter {
namespace {

std::uint64_t at_most(std::uint64_t value, std::uint64_t bound) { return value < bound ? value : bound; }

}  // namespace

MemoryView memory_view(std::uint64_t real_total, std::uint64_t real_free, std::uint64_t limit, std::uint64_t used) {
  const std::uint64_t total = at_most(limit, real_total);
  return {total, at_most(used < total ? total - used : 0, real_free)};
}

std::uint64_t eased_free(std::uint64_t last, std::uint64_t now_free, std::uint64_t total, std::int64_t elapsed_ns) {
  if (now_free <= last || elapsed_ns >= 4'000'000'000) return now_free;
  if (elapsed_ns <= 0) return last;
  const std::uint64_t per_ms = total / 4000;
  const std::uint64_t rise = per_ms * static_cast<std::uint64_t>(elapsed_ns / 1'000'000);
  return at_most(now_free, last + rise);
}

}  // namespace headgate::limiter
