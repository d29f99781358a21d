#include "node/cards.hpp"

#include <string_view>

namespace headgate::node {
namespace {

struct Card {
  std::string_view part;  // of NVML's name; the first row that fits counts
  double tflops;
};

// Longer names before the names that they begin with.
constexpr Card kCards[] = {
    {"B200", 2250},      {"GB200", 2250},  {"H200 NVL", 835},     {"H200", 989},        {"H100 PCIe", 756},
    {"H100 NVL", 835},   {"GH200", 989},   {"H100", 989},         {"H20", 148},         {"A100", 312},
    {"A800", 312},       {"A30", 165},     {"A40", 149.7},        {"A10G", 70},         {"A10", 125},
    {"A16", 4 * 18},     {"A2", 18},       {"L40S", 362},         {"L40", 181},         {"L4", 121},
    {"V100", 125},       {"Tesla T4", 65}, {"RTX 6000 Ada", 364}, {"RTX A6000", 154.8}, {"RTX 5090", 209.5},
    {"RTX 4090", 165.2}, {"RTX 3090", 71},
};

}  // namespace

std::optional<double> fp16_tflops(const std::string& model) {
  for (const auto& [part, tflops] : kCards) {
    const std::size_t at = model.find(part);
    if (at == std::string::npos) continue;
    // "A2" is not "A20": the name ends there.
    const std::size_t end = at + part.size();
    const bool ends = end == model.size() || model[end] == ' ' || model[end] == '-';
    const bool begins = at == 0 || model[at - 1] == ' ' || model[at - 1] == '-';
    if (ends && begins) return tflops;
  }
  return std::nullopt;
}

}  // namespace headgate::node
