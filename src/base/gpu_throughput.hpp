// What a card can compute, for limits that are written in TFLOPS.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headgate {

// Cards by a part of NVML's name for them, and their dense FP16 TFLOPS.
using GpuThroughput = std::vector<std::pair<std::string, double>>;

// Dense FP16 tensor throughput (FP32 accumulation where the maker states it apart) in TFLOPS: `own` rows, the first that fits,
// else NVIDIA's data sheets; empty for a model that is in neither. `model`: as NVML names it ("NVIDIA H100 80GB HBM3").
[[nodiscard]] std::optional<double> fp16_tflops(const std::string& model, const GpuThroughput& own = {});

// "40TFLOPS", "900GFLOPS", "1.2PFLOPS", in TFLOPS; empty for anything else.
[[nodiscard]] std::optional<double> parse_tflops(std::string_view text);
[[nodiscard]] inline bool is_tflops(std::string_view text) { return text.ends_with("FLOPS"); }

}  // namespace headgate
