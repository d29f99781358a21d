// What a row of the /metrics page is, and helpers that its parts share. metrics.cpp assembles the parts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "api/metrics.hpp"

namespace headgate::api {

struct MetricInput {
  const snapshot::Snapshot& snapshot;
  const DaemonFigures& own;
};
using Samples = std::vector<Sample>;
using Value = std::optional<double>;

struct MetricRow {
  Metric metric;
  std::function<void(const MetricInput&, Samples&)> collect;
};

inline constexpr Kind kGauge = Kind::gauge, kCounter = Kind::counter, kHistogram = Kind::histogram;
constexpr Kind kind_of(std::string_view name) { return name.ends_with("_total") ? kCounter : kGauge; }

template <typename T>
Value number(const std::optional<T>& value, double unit = 1) {
  return value ? Value(static_cast<double>(*value) * unit) : std::nullopt;
}
template <typename T>
  requires std::is_arithmetic_v<T>
Value number(T value, double unit = 1) {
  return static_cast<double>(value) * unit;
}
inline constexpr double kNano = 1e-9, kMilli = 1e-3, kMega = 1e6;

inline std::string yes_no(bool value) { return value ? "true" : "false"; }

[[nodiscard]] std::vector<MetricRow> gpu_rows();
[[nodiscard]] std::vector<MetricRow> share_rows();

}  // namespace headgate::api
