// Draws a GPU in one or two lines: memory as a stack of shares, time as a stack with marks for the guarantees.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/units.hpp"
#include "cli/top/picture.hpp"
#include "cli/view/names.hpp"

namespace headgate::cli {
namespace {

// A segment of a bar, and its label.
struct Part {
  double ratio = 0;
  std::string name;
  std::string look;
  std::string_view fill;
};

struct Ink {
  std::string_view even, odd, reserved, unattributed, free, tick;
};
// With colours, segments differ by background; without, by fill character.
Ink ink(FrameStyle style) {
  if (style.ascii) return {"#", "=", ":", "?", ".", "|"};
  if (style.colour) return {" ", " ", "\u2592", "\u2591", "\u00b7", "\u2502"};
  return {"\u2588", "\u2593", ":", "?", "\u00b7", "\u2502"};
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// Rounds each segment's start and end in the running sum, so that the widths add up; the rest is `free`.
std::vector<BarCell> stacked(const std::vector<Part>& parts, unsigned width, std::string_view free) {
  std::vector<BarCell> cells(width, {free, "90"});
  double before = 0;
  for (const Part& part : parts) {
    const auto edge = [width](double ratio) {
      return static_cast<unsigned>(std::lround(std::clamp(ratio, 0.0, 1.0) * width));
    };
    const unsigned from = edge(before), to = edge(before + part.ratio);
    before += part.ratio;
    for (unsigned i = from; i < to; ++i) cells[i] = {part.fill, part.look};
    // A name that fits is written into its segment. The views into its text stay valid longer than the cells.
    if (part.name.empty() || !is_plain(part.name) || part.name.size() + 2 > to - from) continue;
    const auto begin = from + (to - from - static_cast<unsigned>(part.name.size())) / 2;
    for (std::size_t i = 0; i < part.name.size(); ++i)
      cells[begin + i].glyph = std::string_view(part.name).substr(i, 1);
  }
  return cells;
}

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

struct OnGpu {
  const snapshot::Share* share;
  const snapshot::ShareDevice* device;
  int place;
};

std::vector<OnGpu> shares_on(const snapshot::Snapshot& picture, const snapshot::Gpu& gpu) {
  std::vector<OnGpu> all;
  for (std::size_t i = 0; i < picture.shares.size(); ++i) {
    for (const auto& device : picture.shares[i].devices) {
      if (device.uuid == gpu.uuid) all.push_back({&picture.shares[i], &device, static_cast<int>(i)});
    }
  }
  return all;
}

void draw_memory(FrameLine& line, const snapshot::Gpu& gpu, const std::vector<OnGpu>& shares, unsigned width,
                 FrameStyle style) {
  const Ink with = ink(style);
  std::vector<Part> parts;
  for (const OnGpu& on : shares)
    parts.push_back({ratio(on.device->memory_used_bytes, gpu.memory_total_bytes), on.share->name, share_block(on.place),
                     parts.size() % 2 == 0 ? with.even : with.odd});
  parts.push_back({ratio(gpu.memory_unattributed_bytes, gpu.memory_total_bytes), "", "37", with.unattributed});
  parts.push_back({ratio(gpu.memory_reserved_bytes, gpu.memory_total_bytes), "", "90", with.reserved});
  add_cells(line, stacked(parts, width, with.free));
}

double held_on(const std::vector<OnGpu>& shares) {
  double held = 0;
  for (const OnGpu& on : shares) held += on.device->held_ratio.value_or(0);
  return held;
}

void draw_time(FrameLine& line, const snapshot::Snapshot& picture, const snapshot::Gpu& gpu,
               const std::vector<OnGpu>& shares, unsigned width, FrameStyle style) {
  const Ink with = ink(style);
  std::vector<Part> parts;
  for (const OnGpu& on : shares)
    parts.push_back(
        {on.device->held_ratio.value_or(0), "", share_block(on.place), parts.size() % 2 == 0 ? with.even : with.odd});
  parts.push_back({outside_ratio(picture, gpu, held_on(shares)), "", "37", with.unattributed});
  auto cells = stacked(parts, width, with.free);
  // Marks where each share's segment would end if it had exactly its guarantee.
  double sum = 0;
  for (const OnGpu& on : shares) {
    sum += on.device->compute_guarantee_ratio;
    const auto cell = static_cast<std::size_t>(std::lround(std::clamp(sum, 0.0, 1.0) * width));
    if (on.device->compute_guarantee_ratio > 0 && cell > 0) cells[cell - 1] = {with.tick, cells[cell - 1].look};
  }
  add_cells(line, cells);
}

std::string heat_text(const snapshot::Gpu& gpu) {
  std::string text = gpu.temperature_celsius ? std::to_string(*gpu.temperature_celsius) + "C " : "";
  return text + power_text(gpu);
}

// Widths of the parts beside the bar.
constexpr unsigned kLabel = 14, kFigures = 28, kFiguresWide = 44;

void add_throttle(FrameLine& line, const snapshot::Gpu& gpu) {
  if (gpu.mps_clients > 0) line.add(" MPS", "33");
  if (!gpu.throttle_reasons.empty()) line.add(" " + cut(joined(gpu.throttle_reasons, ", "), line.left() - 1), "33");
}

std::vector<FrameLine> two_lines(const TopState& state, const snapshot::Gpu& gpu, unsigned width, FrameStyle style) {
  const auto shares = shares_on(*state.now, gpu);
  const unsigned figures = width >= 110 ? kFiguresWide : kFigures, bar = width - kLabel - figures;
  FrameLine memory(width, style), time(width, style);
  memory.add(" " + cut("GPU " + std::to_string(gpu.index) + " " + short_model(gpu.model), kLabel - 2), "1")
      .pad_to(kLabel);
  draw_memory(memory, gpu, shares, bar, style);
  memory.add(" " + used_of_text(gpu.memory_used_bytes, gpu.memory_total_bytes));
  if (gpu.unlimited_shares > 0) memory.add(" no limit: " + std::to_string(gpu.unlimited_shares), "33");
  else memory.add(" commit " + ratio_text(ratio(gpu.memory_committed_bytes, gpu.memory_total_bytes)));
  if (figures == kFiguresWide) memory.add("  free " + short_bytes_text(gpu.memory_free_bytes));
  if (gpu.memory_unattributed_bytes > 64ull << 20 && memory.left() > 20)
    memory.add("  of no share " + short_bytes_text(gpu.memory_unattributed_bytes), "33");
  time.add("   time").pad_to(kLabel);
  draw_time(time, *state.now, gpu, shares, bar, style);
  time.add(" " + fitted_right(ratio_text(time_ratio(*state.now, gpu)), 4) + " " + heat_text(gpu));
  if (figures == kFiguresWide && gpu.sm_clock_mhz) time.add(" " + std::to_string(*gpu.sm_clock_mhz) + "MHz");
  add_throttle(time, gpu);
  return {memory, time};
}

FrameLine one_line(const TopState& state, const snapshot::Gpu& gpu, unsigned width, FrameStyle style) {
  const auto shares = shares_on(*state.now, gpu);
  const unsigned figures = width >= 110 ? 52 : 33;
  FrameLine line(width, style);
  line.add(" " + cut(std::to_string(gpu.index) + " " + short_model(gpu.model), kLabel - 4), "1").pad_to(kLabel - 2);
  draw_memory(line, gpu, shares, width - kLabel + 2 - figures, style);
  line.add(" " + fitted_right(used_of_text(gpu.memory_used_bytes, gpu.memory_total_bytes), 11) + " " +
           fitted_right(ratio_text(time_ratio(*state.now, gpu)), 4) + " " + heat_text(gpu));
  add_throttle(line, gpu);
  return line;
}

// Readable on dark and light backgrounds; yellow and red are reserved for warnings.
constexpr std::array<const char*, 5> kColours = {"6", "2", "5", "4", "3"};

std::string colour(int place) { return kColours[static_cast<std::size_t>(place) % kColours.size()]; }

std::string whole_percent(double ratio) { return std::to_string(std::lround(std::clamp(ratio, 0.0, 99.99) * 100)); }

}  // namespace

std::vector<FrameLine> gpu_lines(const TopState& state, unsigned width, unsigned most, FrameStyle style) {
  const auto& gpus = state.now->gpus;
  std::vector<FrameLine> lines;
  if (gpus.size() * 2 <= most) {
    for (const auto& gpu : gpus)
      for (auto& line : two_lines(state, gpu, width, style)) lines.push_back(std::move(line));
    return lines;
  }
  const std::size_t shown = gpus.size() <= most ? gpus.size() : most - 1;
  for (std::size_t i = 0; i < shown; ++i) lines.push_back(one_line(state, gpus[i], width, style));
  if (shown < gpus.size())
    lines.push_back(
        FrameLine(width, style).add(" and " + std::to_string(gpus.size() - shown) + " more GPUs (2: all, by GPU)"));
  return lines;
}

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
