// Judges from a measured fraction of a GPU's time whether the gate enforced its limit.
#pragma once

namespace headgate::demo {

enum class Verdict {
  kept,
  not_kept,       // the gate let too much through, or blocked a program that had demand
  could_not_ask,  // too little, but the program lacked CPU time for as much: no verdict on the gate
};

struct GateMeasurement {
  double asked_percent = 0, got_percent = 0;
  double allowed_points = 0;  // tolerated difference
  // Percentage of the time in which the program had no demand, or was ready without a CPU.
  double absent_percent = 0;
};

[[nodiscard]] constexpr Verdict judge(const GateMeasurement& measured) {
  const double lacks = measured.asked_percent - measured.got_percent;
  if (lacks <= measured.allowed_points && -lacks <= measured.allowed_points) return Verdict::kept;
  // The gate cannot give time that the program did not ask for; any excess is the gate's fault.
  return lacks > 0 && lacks <= measured.allowed_points + measured.absent_percent ? Verdict::could_not_ask
                                                                                 : Verdict::not_kept;
}

}  // namespace headgate::demo
