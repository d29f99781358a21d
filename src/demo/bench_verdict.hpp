// What a measured part of a GPU's time says of the gate that should have held it.
#pragma once

namespace headgate::demo {

enum class Verdict {
  kept,
  not_kept,       // the gate let too much through, or kept a program out that asked
  could_not_ask,  // too little, and the program lacked a processor for as much: nothing is said of the gate
};

struct GateMeasurement {
  double asked_percent = 0, got_percent = 0;
  double allowed_points = 0;  // of difference
  // For this part of the time the program was not asking, or was ready to and had no processor.
  double absent_percent = 0;
};

[[nodiscard]] constexpr Verdict judge(const GateMeasurement& measured) {
  const double lacks = measured.asked_percent - measured.got_percent;
  if (lacks <= measured.allowed_points && -lacks <= measured.allowed_points) return Verdict::kept;
  // What a program did not ask for, no gate can have given it. Too much is always the gate's.
  return lacks > 0 && lacks <= measured.allowed_points + measured.absent_percent ? Verdict::could_not_ask
                                                                                 : Verdict::not_kept;
}

}  // namespace headgate::demo
