#include "observe/driver_silence.hpp"

#include <utility>

#include "base/units.hpp"

namespace headgate::observe {
namespace {

std::string text_of(std::chrono::nanoseconds time) { return duration_text(static_cast<std::uint64_t>(time.count())); }

}  // namespace

std::optional<snapshot::Event> DriverSilence::look(std::chrono::nanoseconds silence) {
  const bool told = longest_.count() > 0;
  if (silence > kDriverSilence) {
    longest_ = silence;
    if (told) return std::nullopt;
    return snapshot::Event{
        .kind = "gpu.silent",
        .severity = "error",
        .text = "the driver has not answered for " + text_of(silence) + ": figures of GPUs are old, limits hold"};
  }
  if (!told) return std::nullopt;
  return snapshot::Event{.kind = "gpu.answers",
                         .severity = "info",
                         .text = "the driver answers again, after " + text_of(std::exchange(longest_, {}))};
}

}  // namespace headgate::observe
