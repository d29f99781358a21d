// What a card can compute, for limits that are written in TFLOPS.
#pragma once

#include <optional>
#include <string>

namespace headgate::node {

// Dense FP16 tensor throughput (FP32 accumulation where the maker states it apart) in TFLOPS, from NVIDIA's data sheets; empty
// for a model that is not in the table. `model`: as NVML names it ("NVIDIA H100 80GB HBM3").
[[nodiscard]] std::optional<double> fp16_tflops(const std::string& model);

}  // namespace headgate::node
