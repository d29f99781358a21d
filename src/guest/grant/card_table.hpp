// Throughput of known cards, and amounts written in FLOPS. Pure, allocation-free.
#pragma once

#include <cstdint>
#include <string_view>

#include "guest/grant/text.hpp"

namespace headgate::grant {

// Dense FP16 tensor throughput from NVIDIA's data sheets (with FP32 accumulation where they list it separately).
struct Card {
  std::string_view part;  // of NVML's name; the first match counts
  std::uint32_t gflops;
};
// A longer name must precede any name that it starts with.
inline constexpr Card kCards[] = {
    {"B200", 2'250'000},    {"GB200", 2'250'000},  {"H200 NVL", 835'000},     {"H200", 989'000},
    {"H100 PCIe", 756'000}, {"H100 NVL", 835'000}, {"GH200", 989'000},        {"H100", 989'000},
    {"H20", 148'000},       {"A100", 312'000},     {"A800", 312'000},         {"A30", 165'000},
    {"A40", 149'700},       {"A10G", 70'000},      {"A10", 125'000},          {"A16", 72'000},
    {"A2", 18'000},         {"L40S", 362'000},     {"L40", 181'000},          {"L4", 121'000},
    {"V100", 125'000},      {"Tesla T4", 65'000},  {"RTX 6000 Ada", 364'000}, {"RTX A6000", 154'800},
    {"RTX 5090", 209'500},  {"RTX 4090", 165'200}, {"RTX 3090", 71'000},
};

// Returns whether NVML's model name ("NVIDIA H100 80GB HBM3") has this part as a word: "A2" does not match "A20".
constexpr bool names_card(std::string_view model, std::string_view part) {
  for (std::size_t at = 0; at + part.size() <= model.size(); ++at) {
    if (std::string_view(model.data() + at, part.size()) != part) continue;
    const std::size_t end = at + part.size();
    const bool ends = end == model.size() || model[end] == ' ' || model[end] == '-';
    return ends && (at == 0 || model[at - 1] == ' ' || model[at - 1] == '-');
  }
  return false;
}

// Returns 0 for a model without a row.
constexpr std::uint32_t gflops_of(std::string_view model) {
  for (const Card& card : kCards)
    if (names_card(model, card.part)) return card.gflops;
  return 0;
}

constexpr bool ends_in_flops(std::string_view text) {
  constexpr std::string_view kFlops = "FLOPS";
  return text.size() >= kFlops.size() && same_ignoring_case(from(text, text.size() - kFlops.size()), kFlops);
}

// Parses "40TFLOPS", "900GFLOPS", "1.5PFLOPS" in any case, to megaflops. Returns 0 for anything else.
constexpr std::uint64_t parse_megaflops(std::string_view text) {
  if (!ends_in_flops(text) || text.size() < 7) return 0;
  std::uint64_t unit = 0;
  switch (lower(text[text.size() - 6])) {
    case 'g': unit = 1'000; break;
    case 't': unit = 1'000'000; break;
    case 'p': unit = 1'000'000'000; break;
    default: return 0;
  }
  std::uint64_t value = 0, place = 0;
  for (const char c : first(text, text.size() - 6)) {
    if (c == '.' && place == 0) {
      place = unit;
    } else if (!is_digit(c) || value > 1'000'000'000'000) {
      return 0;
    } else if (place != 0) {
      value += static_cast<std::uint64_t>(c - '0') * (place /= 10);
    } else {
      value = value * 10 + static_cast<std::uint64_t>(c - '0') * unit;
    }
  }
  return is_digit(text[0]) ? value : 0;
}

}  // namespace headgate::grant
