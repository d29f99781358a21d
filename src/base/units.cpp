#include "base/units.hpp"

#include <array>
#include <ctime>

namespace headgate {
namespace {

// Rounds to the nearest tenth without floating point: 35.3 for 37,892,456,448 bytes in GiB.
std::string tenths(std::uint64_t value, std::uint64_t unit) {
  std::uint64_t whole = value / unit;
  std::uint64_t tenth = (value % unit * 10 + unit / 2) / unit;
  if (tenth == 10) ++whole, tenth = 0;
  return std::to_string(whole) + "." + std::to_string(tenth);
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  std::size_t power = 0;
  while (power + 1 < kUnits.size() && bytes >> (10 * (power + 2)) != 0) ++power;
  const std::uint64_t unit = 1ull << (10 * (power + 1));
  const std::string number = bytes % unit == 0 && power < 2 ? std::to_string(bytes / unit) : tenths(bytes, unit);
  return number + " " + kUnits[power];
}

std::string with_likely_unit(const std::string& number) {
  if (number.size() > 7) return number + "B";
  return (number.size() <= 3 ? number + "GiB or " : "") + number + "MiB";
}

std::string exact_bytes_text(std::uint64_t bytes) {
  if (bytes < 1024 || (bytes < kGiB && bytes % kMiB == 0) || bytes % kGiB == 0) return bytes_text(bytes);
  if (bytes % kMiB == 0) return std::to_string(bytes / kMiB) + " MiB";
  return bytes_text(bytes) + " (" + std::to_string(bytes) + " bytes)";
}

std::string rate_text(std::uint32_t ppm) {
  return std::to_string(ppm / 10'000) + "." + std::to_string(ppm % 10'000 / 1'000) + " %";
}

std::string percent_text(std::uint64_t ppm) {
  std::string text = std::to_string(ppm / 10'000);
  std::uint64_t rest = ppm % 10'000;
  if (rest != 0) {
    std::string digits = std::to_string(rest);
    digits.insert(0, 4 - digits.size(), '0');
    while (digits.back() == '0') digits.pop_back();
    text += "." + digits;
  }
  return text + " %";
}

std::string duration_text(std::uint64_t ns) {
  constexpr std::uint64_t kSecond = 1'000'000'000, kMinute = 60 * kSecond, kHour = 60 * kMinute;
  if (ns == 0) return "0 s";
  if (ns < 1'000'000) return tenths(ns, 1000) + " us";
  if (ns < kSecond) return tenths(ns, 1'000'000) + " ms";
  if (ns < kMinute) return tenths(ns, kSecond) + " s";
  if (ns < kHour) return std::to_string(ns / kMinute) + " min " + std::to_string(ns % kMinute / kSecond) + " s";
  return std::to_string(ns / kHour) + " h " + std::to_string(ns % kHour / kMinute) + " min";
}

std::string short_bytes_text(std::uint64_t bytes) {
  const std::string text = bytes_text(bytes);
  const std::size_t blank = text.find(' ');
  return text.substr(0, blank) + (bytes < 1024 ? "B" : text.substr(blank + 1, 1));
}

std::string short_duration_text(std::uint64_t ns) {
  const std::uint64_t seconds = ns / 1'000'000'000, minutes = seconds / 60, hours = minutes / 60;
  if (minutes == 0) return std::to_string(seconds) + "s";
  if (hours == 0) return std::to_string(minutes) + "m";
  if (hours < 24)
    return std::to_string(hours) + "h" + (minutes % 60 < 10 ? "0" : "") + std::to_string(minutes % 60) + "m";
  return std::to_string(hours / 24) + "d";
}

std::string clock_text(std::uint64_t realtime_ns) {
  const auto seconds = static_cast<std::time_t>(realtime_ns / 1'000'000'000);
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return std::to_string(seconds);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%H:%M:%S", &parts)};
}

}  // namespace headgate
