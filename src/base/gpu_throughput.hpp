// GPUs configured by an operator for limits in TFLOPS; guest/grant/card_table.hpp has the data sheets'.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace headgate {

// Pairs of a substring of NVML's GPU name and dense FP16 TFLOPS.
using GpuThroughput = std::vector<std::pair<std::string, double>>;

}  // namespace headgate
