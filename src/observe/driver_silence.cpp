#include "observe/driver_silence.hpp"

#include "base/units.hpp"

namespace headgate::observe {

std::optional<snapshot::Event> DriverSilence::look(std::chrono::nanoseconds silence) {
  const bool told = longest_.count() > 0;
  snapshot::Event event;
  if (silence > kDriverSilence) {
    longest_ = silence;
    if (told) return std::nullopt;
    event.kind = "gpu.silent";
    event.severity = "error";
    event.text = "the driver has not answered for " + duration_text(static_cast<std::uint64_t>(silence.count())) +
                 ": figures of GPUs are old, limits hold";
    return event;
  }
  if (!told) return std::nullopt;
  event.kind = "gpu.answers";
  event.severity = "info";
  event.text = "the driver answers again, after " + duration_text(static_cast<std::uint64_t>(longest_.count()));
  longest_ = {};
  return event;
}

}  // namespace headgate::observe
