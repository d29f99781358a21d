// Throughput of cards in TFLOPS, for the command and the daemon. The limiter uses card_table.hpp directly.
#pragma once

#include <optional>
#include <string_view>

#include "guest/grant/card_table.hpp"

namespace headgate {

// Returns dense FP16 TFLOPS from NVIDIA's data sheets, or nothing for an unknown model. `model` is NVML's name ("NVIDIA
// H100 80GB HBM3").
[[nodiscard]] inline std::optional<double> fp16_tflops(std::string_view model) {
  const std::uint32_t gflops = grant::gflops_of(model);
  return gflops == 0 ? std::nullopt : std::optional(gflops / 1e3);
}

// The same, but the first matching row of `own` (base/gpu_throughput.hpp) takes precedence over the data sheets.
template <typename Rows>
[[nodiscard]] std::optional<double> fp16_tflops(std::string_view model, const Rows& own) {
  for (const auto& [part, tflops] : own)
    if (grant::names_card(model, part)) return tflops;
  return fp16_tflops(model);
}

// Parses "40TFLOPS", "900GFLOPS", "1.2PFLOPS" in any case, to TFLOPS. Returns nothing for anything else.
[[nodiscard]] inline std::optional<double> parse_tflops(std::string_view text) {
  const std::uint64_t megaflops = grant::parse_megaflops(text);
  return megaflops == 0 ? std::nullopt : std::optional(static_cast<double>(megaflops) / 1e6);
}
[[nodiscard]] inline bool is_tflops(std::string_view text) { return grant::ends_in_flops(text); }

}  // namespace headgate
