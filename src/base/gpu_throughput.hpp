// Cards that an operator has named, for limits in TFLOPS; the data sheets' are in guest/grant/card_table.hpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace headgate {

// By a part of NVML's name for them, and their dense FP16 TFLOPS.
using GpuThroughput = std::vector<std::pair<std::string, double>>;

}  // namespace headgate
