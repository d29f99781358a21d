#include "guest/grant/size.hpp"

#include "guest/grant/text.hpp"

namespace headgate::grant {
namespace {

// A decimal number as digits: 12.5 has whole "12" and fraction "5".
struct Decimal {
  std::string_view whole;
  std::string_view fraction;
  std::string_view unit;  // what follows the number
};

Parsed<Decimal> split(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return {.fault = Fault::empty};
  std::size_t i = 0;
  if (text[0] == '-')
    return {.fault = text.size() > 1 && (is_digit(text[1]) || text[1] == '.') ? Fault::negative : Fault::junk};
  while (i < text.size() && is_digit(text[i])) ++i;
  Decimal decimal;
  decimal.whole = first(text, i);
  if (i < text.size() && text[i] == '.') {
    const std::size_t start = ++i;
    while (i < text.size() && is_digit(text[i])) ++i;
    decimal.fraction = first(from(text, start), i - start);
    if (decimal.fraction.empty()) return {.fault = Fault::junk};
  }
  if (decimal.whole.empty()) return {.fault = Fault::junk};
  decimal.unit = trimmed(from(text, i));
  return {decimal};
}

bool all_zero(std::string_view digits) {
  for (const char c : digits) {
    if (c != '0') return false;
  }
  return true;
}

// Returns floor(decimal * scale). Flooring after each digit of the fraction, last digit first, gives the exact floor,
// because each step divides by an integer. So 64 bits suffice for any number of digits. scale < 2^60.
Parsed<std::uint64_t> scaled(const Decimal& decimal, std::uint64_t scale) {
  std::uint64_t value = 0;
  for (const char c : decimal.whole) {
    if (__builtin_mul_overflow(value, 10ull, &value)) return {.fault = Fault::overflow};
    if (__builtin_add_overflow(value, static_cast<std::uint64_t>(c - '0'), &value)) return {.fault = Fault::overflow};
  }
  if (__builtin_mul_overflow(value, scale, &value)) return {.fault = Fault::overflow};
  std::uint64_t part = 0;
  for (std::size_t i = decimal.fraction.size(); i-- > 0;) {
    part = (static_cast<std::uint64_t>(decimal.fraction[i] - '0') * scale + part) / 10;
  }
  if (__builtin_add_overflow(value, part, &value)) return {.fault = Fault::overflow};
  if (value == 0) return {.fault = Fault::zero};
  return {value};
}

// Parses the digits after "0x" as bytes: HAMi-core reads its limits with strtoul base 0.
Parsed<std::uint64_t> hexadecimal(std::string_view digits) {
  if (digits.empty()) return {.fault = Fault::junk};
  std::uint64_t value = 0;
  for (const char raw : digits) {
    const char c = lower(raw);
    std::uint64_t digit = 0;
    if (is_digit(c)) digit = static_cast<std::uint64_t>(c - '0');
    else if (c >= 'a' && c <= 'f') digit = static_cast<std::uint64_t>(c - 'a' + 10);
    else return {.fault = Fault::junk};
    if (value >> 60 != 0) return {.fault = Fault::overflow};
    value = value << 4 | digit;
  }
  if (value == 0) return {.fault = Fault::zero};
  return {value};
}

// Returns the bytes of one unit, or 0 for an unknown unit. "8G" is binary, as in Docker; only "GB" is decimal.
std::uint64_t unit_bytes(std::string_view unit) {
  if (same_ignoring_case(unit, "B")) return 1;
  if (unit.empty()) return 0;
  std::uint32_t power = 0;
  switch (lower(unit[0])) {
    case 'k': power = 1; break;
    case 'm': power = 2; break;
    case 'g': power = 3; break;
    case 't': power = 4; break;
    case 'p': power = 5; break;
    default: return 0;
  }
  const std::string_view rest = from(unit, 1);
  const bool decimal = same_ignoring_case(rest, "B");
  if (!decimal && !rest.empty() && !same_ignoring_case(rest, "i") && !same_ignoring_case(rest, "iB")) return 0;
  std::uint64_t bytes = 1;
  for (; power > 0; --power) bytes *= decimal ? 1000 : 1024;
  return bytes;
}

// Returns the millionths in one compute unit, or 0 for an unknown unit.
std::uint64_t unit_ppm(std::string_view unit, Dialect dialect) {
  if (unit == "%") return 10'000;
  if (dialect == Dialect::bare_percent) return unit.empty() ? 10'000 : 0;
  if (same_ignoring_case(unit, "m")) return 1'000;
  return unit.empty() ? kWholePpm : 0;
}

}  // namespace

std::uint64_t Memory::on(std::uint64_t card_bytes) const {
  if (ppm == 0) return bytes;
  return card_bytes / kWholePpm * ppm + card_bytes % kWholePpm * ppm / kWholePpm;
}

Parsed<Memory> parse_memory(std::string_view text, Dialect dialect) {
  const std::string_view clean = trimmed(text);
  if (dialect == Dialect::bare_bytes && starts_ignoring_case(clean, "0x")) {
    const auto bytes = hexadecimal(from(clean, 2));
    return {{.bytes = bytes.value}, bytes.fault};
  }
  const auto decimal = split(clean);
  if (!decimal) return {.fault = decimal.fault};
  const std::string_view unit = decimal.value.unit;
  if (unit == "%" && dialect == Dialect::headgate) {
    const auto ppm = scaled(decimal.value, 10'000);
    if (!ppm) return {.fault = ppm.fault};
    if (ppm.value > kWholePpm) return {.fault = Fault::out_of_range};
    return {{.ppm = static_cast<std::uint32_t>(ppm.value)}};
  }
  std::uint64_t scale = unit_bytes(unit);
  if (unit.empty()) {
    if (all_zero(decimal.value.whole) && all_zero(decimal.value.fraction)) return {.fault = Fault::zero};
    if (dialect == Dialect::headgate) return {.fault = Fault::bare_number};
    scale = 1;
  }
  if (scale == 0) return {.fault = Fault::junk};
  const auto bytes = scaled(decimal.value, scale);
  return {{.bytes = bytes.value}, bytes.fault};
}

Parsed<std::uint32_t> parse_compute(std::string_view text, Dialect dialect) {
  const auto decimal = split(text);
  if (!decimal) return {.fault = decimal.fault};
  const std::uint64_t scale = unit_ppm(decimal.value.unit, dialect);
  if (scale == 0) return {.fault = Fault::junk};
  const auto ppm = scaled(decimal.value, scale);
  if (!ppm) return {.fault = ppm.fault == Fault::overflow ? Fault::out_of_range : ppm.fault};
  if (ppm.value > kWholePpm) {
    // "50" most likely means half a GPU, not fifty GPUs.
    const bool bare = decimal.value.unit.empty() && dialect == Dialect::headgate && ppm.value <= 100ull * kWholePpm;
    return {.fault = bare ? Fault::bare_number : Fault::out_of_range};
  }
  return {static_cast<std::uint32_t>(ppm.value)};
}

Parsed<std::uint32_t> parse_ratio(std::string_view text) {
  if (!text.empty() && text.back() == '.') text.remove_suffix(1);  // their makers' parsers take "1."
  const auto decimal = split(text);
  if (!decimal) return {.fault = decimal.fault};
  if (!decimal.value.unit.empty()) return {.fault = Fault::junk};
  const auto ppm = scaled(decimal.value, kWholePpm);
  if (!ppm) return {.fault = ppm.fault};
  if (ppm.value > 1000ull * kWholePpm) return {.fault = Fault::overflow};
  return {static_cast<std::uint32_t>(ppm.value), ppm.value < kWholePpm ? Fault::junk : Fault::none};
}

std::string_view accepted_memory(Dialect dialect) {
  if (dialect == Dialect::headgate) return "8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card";
  return "bytes, or a number with k, m, g or t (binary), such as 3g, 1.5G or 1000m";
}

std::string_view accepted_compute(Dialect dialect) {
  if (dialect == Dialect::headgate) return "50%, 0.5 or 500m: more than 0, at most one GPU";
  return "a percentage from 1 to 100, such as 50";
}

std::string_view describe(Fault fault) {
  switch (fault) {
    case Fault::none: return "is accepted";
    case Fault::empty: return "is empty";
    case Fault::junk: return "is not understood";
    case Fault::negative: return "is negative";
    case Fault::zero: return "is zero";
    case Fault::bare_number: return "has no unit";
    case Fault::overflow: return "is too large";
    case Fault::out_of_range: return "is more than a whole GPU";
    case Fault::over_card: return "is more than the card has";
    case Fault::no_such_gpu: return "is for a GPU that is not here";
    case Fault::unknown_name: return "is not a name that is read";
    case Fault::without_hard: return "has no hard limit beside it that it could be above";
    case Fault::unknown_card: return "is for a card whose TFLOPS are not known";
  }
  return "is not understood";
}

}  // namespace headgate::grant
