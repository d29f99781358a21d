#include "base/gpu_throughput.hpp"

#include <algorithm>
#include <charconv>

namespace headgate {
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

bool names(const std::string& model, std::string_view part) {
  const std::size_t at = model.find(part);
  if (at == std::string::npos) return false;
  // "A2" is not "A20": the name ends there.
  const std::size_t end = at + part.size();
  const bool ends = end == model.size() || model[end] == ' ' || model[end] == '-';
  const bool begins = at == 0 || model[at - 1] == ' ' || model[at - 1] == '-';
  return ends && begins;
}

}  // namespace

std::optional<double> fp16_tflops(const std::string& model, const GpuThroughput& own) {
  for (const auto& [part, tflops] : own)
    if (names(model, part)) return tflops;
  for (const auto& [part, tflops] : kCards)
    if (names(model, part)) return tflops;
  return std::nullopt;
}

std::optional<double> parse_tflops(std::string_view text) {
  if (!is_tflops(text) || text.size() < 7) return std::nullopt;
  double tflops = 0;
  const char* const end = text.data() + text.size() - 6;
  const auto [at, error] = std::from_chars(text.data(), end, tflops);
  switch (*end) {
    case 'G': tflops /= 1000; break;
    case 'T': break;
    case 'P': tflops *= 1000; break;
    default: return std::nullopt;
  }
  if (error != std::errc() || at != end || !(tflops > 0)) return std::nullopt;
  return tflops;
}

}  // namespace headgate
