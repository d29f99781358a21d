#include "config/power_settings.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "base/whole_number.hpp"

namespace headgate::config {
namespace {

constexpr double kMaxMilliwatts = UINT32_MAX;
constexpr std::size_t kMaxGpus = 64;
constexpr std::array<std::string_view, 4> kTimeSlices = {"default", "short", "medium", "long"};

// A decimal number without sign or exponent, and its unit.
struct Quantity {
  double number = 0;
  std::string_view unit;
};

std::optional<Quantity> parse_quantity(std::string_view text) {
  Quantity quantity;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), quantity.number, std::chars_format::fixed);
  if (error != std::errc{} || text.empty() || text[0] < '0' || text[0] > '9' || !std::isfinite(quantity.number))
    return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  quantity.unit = text;
  return quantity;
}

std::string decimal_text(std::uint32_t thousandths) {
  std::string text = std::to_string(thousandths / 1000);
  if (thousandths % 1000 == 0) return text;
  std::string rest = std::to_string(1000 + thousandths % 1000).substr(1);
  rest.resize(rest.find_last_not_of('0') + 1);
  return text + "." + rest;
}

}  // namespace

std::optional<std::uint32_t> parse_milliwatts(std::string_view text) {
  const auto quantity = parse_quantity(text);
  if (!quantity) return std::nullopt;
  const double factor = quantity->unit == "W" || quantity->unit == "w" ? 1e3 : quantity->unit == "kW" ? 1e6 : 0;
  const double milliwatts = std::round(quantity->number * factor);
  if (!(milliwatts >= 1 && milliwatts <= kMaxMilliwatts)) return std::nullopt;
  return static_cast<std::uint32_t>(milliwatts);
}

std::optional<PowerLimit> parse_power_limit(std::string_view text) {
  if (text == "default") return PowerLimit{PowerLimit::Kind::standard, 0};
  if (const auto milliwatts = parse_milliwatts(text)) return PowerLimit{PowerLimit::Kind::milliwatts, *milliwatts};
  const auto quantity = parse_quantity(text);
  if (!quantity || quantity->unit != "%") return std::nullopt;
  const double thousandths = std::round(quantity->number * 1000);
  if (!(thousandths >= 1 && thousandths <= 100'000)) return std::nullopt;
  return PowerLimit{PowerLimit::Kind::of_maximum, static_cast<std::uint32_t>(thousandths)};
}

std::optional<Range> parse_clocks(std::string_view text) {
  if (text == "none") return Range{};
  for (const std::string_view unit : {" MHz", "MHz", " mhz", "mhz"}) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    const auto dash = text.find('-');
    const auto least = whole_number<std::uint32_t>(text.substr(0, dash));
    const auto most = dash == std::string_view::npos ? least : whole_number<std::uint32_t>(text.substr(dash + 1));
    if (!least || !most || *least > *most || *most == 0) return std::nullopt;
    return Range{*least, *most};
  }
  return std::nullopt;
}

std::optional<std::uint32_t> parse_compute_mode(std::string_view text) {
  for (const std::uint32_t mode : {0u, 2u, 3u})
    if (text == format_compute_mode(mode)) return mode;
  return std::nullopt;
}

std::optional<std::uint32_t> parse_time_slice(std::string_view text) {
  for (std::uint32_t length = 0; length < kTimeSlices.size(); ++length)
    if (text == kTimeSlices[length]) return length;
  return std::nullopt;
}

std::string format_power_limit(const PowerLimit& limit) {
  switch (limit.kind) {
    case PowerLimit::Kind::milliwatts: return decimal_text(limit.value) + "W";
    case PowerLimit::Kind::of_maximum: return decimal_text(limit.value) + "%";
    case PowerLimit::Kind::standard: break;
  }
  return "default";
}

std::string format_clocks(const Range& mhz) {
  if (mhz.most == 0) return "none";
  const std::string most = std::to_string(mhz.most) + "MHz";
  return mhz.least == mhz.most ? most : std::to_string(mhz.least) + "-" + most;
}

std::string_view format_compute_mode(std::uint32_t mode) {
  return mode == 0 ? "default" : mode == 2 ? "prohibited" : "exclusive process";
}

std::string_view format_time_slice(std::uint32_t length) {
  return length < kTimeSlices.size() ? kTimeSlices[length] : "unknown";
}

Result<void> check_power_settings(const PowerSettings& settings) {
  if (settings.empty()) return fail(ErrorCode::usage, "settings names nothing");
  if (settings.budget_mw && settings.power_limit)
    return fail(ErrorCode::usage, "budget and power_limit exclude each other", "name one of them");
  if (!settings.weights.empty() && !settings.budget_mw)
    return fail(ErrorCode::usage, "weights belong to a budget, and there is none", "accepted: budget = \"500W\"");
  if (settings.weights.size() > kMaxGpus)
    return fail(ErrorCode::usage, "weights has more entries than GPUs", "one for each GPU, in their order");
  for (const std::uint32_t weight : settings.weights)
    if (weight == 0 || weight > 1000)
      return fail(ErrorCode::usage, "weights has the entry " + std::to_string(weight), "accepted: 1 to 1000");
  return {};
}

}  // namespace headgate::config
