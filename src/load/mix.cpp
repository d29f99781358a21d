#include "load/mix.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/split.hpp"
#include "base/whole_number.hpp"

namespace headgate::load {

namespace {

constexpr double kLongestUs = 60e6;
constexpr double kShortestUs = 0.001;
constexpr char kForms[] = "write 200us, lognormal:200us,1.0,seed=7 or list:20us,200us,1ms (units ns, us, ms, s)";

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::unexpected<Error> bad_mix(std::string_view text) {
  return fail(ErrorCode::usage, "kernel times '" + std::string(text) + "' cannot be read", kForms);
}

Result<Mix> parse_lognormal(std::string_view whole, std::string_view rest) {
  const auto parts = split(rest, ',');
  if (parts.size() < 2 || parts.size() > 3) return bad_mix(whole);
  Mix mix{.kind = MixKind::lognormal, .times_us = {TRY(parse_time_us(parts[0]))}};
  const auto sigma = number(parts[1]);
  if (!sigma || *sigma < 0 || *sigma > 3)
    return fail(ErrorCode::usage, "sigma '" + parts[1] + "' is not a number from 0 to 3", kForms);
  mix.sigma = *sigma;
  if (parts.size() == 3) {
    std::string_view seed = parts[2];
    if (!seed.starts_with("seed=")) return bad_mix(whole);
    seed.remove_prefix(5);
    const auto number = whole_number<decltype(mix.seed)>(seed);
    if (!number) return bad_mix(whole);
    mix.seed = *number;
  }
  return mix;
}

// splitmix64: small, well known and portable, so that two runs draw the same kernels.
std::uint64_t next_bits(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double next_unit(std::uint64_t& state) {  // in (0, 1]
  return (static_cast<double>(next_bits(state) >> 11) + 1.0) * 0x1p-53;
}

}  // namespace

Result<double> parse_time_us(std::string_view text) {
  struct Unit {
    std::string_view name;
    double us;
  };
  // Longer names first, because all of them end in "s".
  for (const Unit unit : {Unit{"ns", 1e-3}, Unit{"us", 1}, Unit{"ms", 1e3}, Unit{"s", 1e6}}) {
    if (!text.ends_with(unit.name)) continue;
    const auto value = number(text.substr(0, text.size() - unit.name.size()));
    if (!value) break;
    const double us = *value * unit.us;
    if (us < kShortestUs || us > kLongestUs)
      return fail(ErrorCode::usage, "time '" + std::string(text) + "' is out of range", "accepted: 1ns to 60s");
    return us;
  }
  return fail(ErrorCode::usage, "time '" + std::string(text) + "' cannot be read",
              "write a number with ns, us, ms or s, such as 200us");
}

Result<Mix> parse_mix(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = colon == std::string_view::npos ? "fixed" : text.substr(0, colon);
  const std::string_view rest = colon == std::string_view::npos ? text : text.substr(colon + 1);
  if (kind == "fixed") return Mix{.kind = MixKind::fixed, .times_us = {TRY(parse_time_us(rest))}};
  if (kind == "lognormal") return parse_lognormal(text, rest);
  if (kind == "list") {
    Mix mix{.kind = MixKind::list, .times_us = {}};
    for (const std::string& part : split(rest, ',')) mix.times_us.push_back(TRY(parse_time_us(part)));
    return mix;
  }
  return bad_mix(text);
}

MixSource::MixSource(const Mix& mix, std::uint64_t salt) : mix_(mix), state_(mix.seed * 0x2545f4914f6cdd1d + salt) {}

double MixSource::next_us() {
  switch (mix_.kind) {
    case MixKind::fixed: return mix_.times_us[0];
    case MixKind::list: {
      const double us = mix_.times_us[position_];
      position_ = (position_ + 1) % mix_.times_us.size();
      return us;
    }
    case MixKind::lognormal: break;
  }
  const double radius = std::sqrt(-2.0 * std::log(next_unit(state_)));
  const double normal = radius * std::cos(2.0 * std::numbers::pi * next_unit(state_));
  return std::clamp(mix_.times_us[0] * std::exp(mix_.sigma * normal), kShortestUs, kLongestUs);
}

}  // namespace headgate::load
