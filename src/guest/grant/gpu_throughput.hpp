// What a card can compute in TFLOPS, for the command and the daemon; a limiter uses card_table.hpp itself.
#pragma once

#include <optional>
#include <string_view>

#include "guest/grant/card_table.hpp"

namespace headgate {

// Dense FP16 TFLOPS by NVIDIA's data sheets; empty for a model that is in none. `model`: as NVML names it ("NVIDIA H100
// 80GB HBM3").
[[nodiscard]] inline std::optional<double> fp16_tflops(std::string_view model) {
  const std::uint32_t gflops = grant::gflops_of(model);
  return gflops == 0 ? std::nullopt : std::optional(gflops / 1e3);
}

// `own` rows (base/gpu_throughput.hpp), the first that fits, before the data sheets.
template <typename Rows>
[[nodiscard]] std::optional<double> fp16_tflops(std::string_view model, const Rows& own) {
  for (const auto& [part, tflops] : own)
    if (grant::names_card(model, part)) return tflops;
  return fp16_tflops(model);
}

// "40TFLOPS", "900GFLOPS", "1.2PFLOPS" in any case, in TFLOPS; empty for anything else.
[[nodiscard]] inline std::optional<double> parse_tflops(std::string_view text) {
  const std::uint64_t megaflops = grant::parse_megaflops(text);
  return megaflops == 0 ? std::nullopt : std::optional(static_cast<double>(megaflops) / 1e6);
}
[[nodiscard]] inline bool is_tflops(std::string_view text) { return grant::ends_in_flops(text); }

}  // namespace headgate
