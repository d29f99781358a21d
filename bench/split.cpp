#include "split.hpp"

#include <algorithm>
#include <cmath>

namespace headgate::bench {

Accuracy accuracy(const std::vector<Bucket>& buckets, std::int64_t bucket_ns, std::size_t per_window, double limit) {
  Accuracy result;
  const double window_ns = static_cast<double>(bucket_ns) * static_cast<double>(per_window);
  double squares = 0, wrong_squares = 0;
  for (std::size_t first = 0; first + per_window <= buckets.size(); first += per_window) {
    Bucket sum;
    for (std::size_t i = first; i < first + per_window; ++i) {
      sum.held_ns += buckets[i].held_ns;
      sum.idle_ns += buckets[i].idle_ns;
      sum.late_ns += buckets[i].late_ns;
    }
    const double error = static_cast<double>(sum.held_ns) / window_ns - limit;
    const double unusable = std::min(1.0, static_cast<double>(sum.idle_ns + sum.late_ns) / window_ns);
    const double wrong = error >= 0 ? error : error + std::min(-error, limit * unusable);
    ++result.windows;
    result.bias += error;
    squares += error * error;
    result.worst = std::max(result.worst, std::abs(error));
    result.wrong_bias += wrong;
    wrong_squares += wrong * wrong;
    result.wrong_worst = std::max(result.wrong_worst, std::abs(wrong));
  }
  if (result.windows > 0) {
    const auto windows = static_cast<double>(result.windows);
    result.bias *= 100 / windows;
    result.wrong_bias *= 100 / windows;
    result.rms = 100 * std::sqrt(squares / windows);
    result.wrong_rms = 100 * std::sqrt(wrong_squares / windows);
    result.worst *= 100;
    result.wrong_worst *= 100;
  }
  return result;
}

std::vector<double> wrong_parts(const std::vector<std::vector<Bucket>>& tenants, std::int64_t bucket_ns,
                                const std::vector<double>& asked_percent) {
  std::vector<double> wrong, excused;
  double all_excused = 0;
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    Bucket sum;
    for (const Bucket& bucket : tenants[i]) {
      sum.held_ns += bucket.held_ns;
      sum.idle_ns += bucket.idle_ns;
      sum.late_ns += bucket.late_ns;
    }
    const double all_ns = static_cast<double>(bucket_ns) * static_cast<double>(tenants[i].size());
    const double error = 100 * static_cast<double>(sum.held_ns) / all_ns - asked_percent[i];
    const double unusable = std::min(1.0, static_cast<double>(sum.idle_ns + sum.late_ns) / all_ns);
    excused.push_back(error < 0 ? std::min(-error, asked_percent[i] * unusable) : 0);
    all_excused += excused.back();
    wrong.push_back(error + excused.back());
  }
  for (double& part : wrong)
    if (part > 0) part = std::max(0.0, part - all_excused);
  return wrong;
}

}  // namespace headgate::bench
