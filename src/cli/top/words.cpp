#include <algorithm>
#include <array>
#include <cmath>

#include "base/units.hpp"
#include "cli/top/picture.hpp"

namespace headgate::cli {
namespace {

// Readable on dark and light backgrounds; yellow and red are reserved for warnings.
constexpr std::array<const char*, 5> kColours = {"6", "2", "5", "4", "3"};

std::string colour(int place) { return kColours[static_cast<std::size_t>(place) % kColours.size()]; }

std::string whole_percent(double ratio) { return std::to_string(std::lround(std::clamp(ratio, 0.0, 99.99) * 100)); }

}  // namespace

std::string share_look(int place) { return place < 0 ? "" : "3" + colour(place); }
std::string share_block(int place) { return place < 0 ? "90" : "30;4" + colour(place); }

std::string ratio_text(const std::optional<double>& ratio) {
  if (!ratio || !std::isfinite(*ratio)) return "-";
  return *ratio > 0 && *ratio < 0.005 ? "<1%" : whole_percent(*ratio) + "%";
}

std::string allowance_text(double guarantee_ratio, double ceiling_ratio) {
  const bool bounded = ceiling_ratio < 1;
  if (guarantee_ratio <= 0) return bounded ? whole_percent(ceiling_ratio) + "%" : "all";
  if (guarantee_ratio >= ceiling_ratio) return whole_percent(ceiling_ratio) + "%";
  return whole_percent(guarantee_ratio) + (bounded ? "-" + whole_percent(ceiling_ratio) + "%" : "%+");
}

std::string used_of_text(std::uint64_t used_bytes, const std::optional<std::uint64_t>& limit_bytes) {
  std::string used = short_bytes_text(used_bytes);
  if (!limit_bytes) return used + "/-";
  std::string limit = short_bytes_text(*limit_bytes);
  if (used.back() == limit.back()) used.pop_back();
  // The column has eleven cells, and a truncated number would be wrong: drop the decimals first of the limit, then of
  // both.
  constexpr std::size_t kCells = 11;
  if (used.size() + 1 + limit.size() > kCells && limit.contains(".0")) limit.erase(limit.find('.'), 2);
  if (used.size() + 1 + limit.size() > kCells)
    for (std::string* figure : {&used, &limit})
      if (const std::size_t point = figure->find('.'); point != std::string::npos) figure->erase(point, 2);
  return used + "/" + limit;
}

std::string power_text(const snapshot::Gpu& gpu) {
  if (!gpu.power_mw) return "";
  const std::string now = std::to_string(*gpu.power_mw / 1000);
  return gpu.power_limit_mw ? now + "/" + std::to_string(*gpu.power_limit_mw / 1000) + "W" : now + "W";
}

}  // namespace headgate::cli
