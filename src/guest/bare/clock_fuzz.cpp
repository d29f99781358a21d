// The kernel writes what is parsed here, but a container can mount anything at /proc.
#include <cstdint>
#include <cstdlib>

#include "guest/bare/clock.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using headgate::bare::ClockOffsets;
  constexpr std::int64_t kMost = INT64_MAX / 2 + 1'000'000'000;
  ClockOffsets out{3, 4};
  const bool read = headgate::bare::parse_clock_offsets({reinterpret_cast<const char*>(data), size}, out);
  if (!read && (out.monotonic_ns != 3 || out.boottime_ns != 4)) std::abort();
  for (const std::int64_t offset : {out.monotonic_ns, out.boottime_ns})
    if (offset > kMost || offset < -kMost) std::abort();
  return 0;
}
