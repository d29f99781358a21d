#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guest/grant/select.hpp"
#include "guest/grant/size.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::grant;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto dialect : {Dialect::headgate, Dialect::bare_bytes, Dialect::bare_percent}) {
    if (const auto memory = parse_memory(text, dialect);
        memory && (!memory.value.said() || memory.value.ppm > kWholePpm))
      std::abort();
    if (const auto compute = parse_compute(text, dialect); compute && (compute.value == 0 || compute.value > kWholePpm))
      std::abort();
  }
  static constexpr Candidate kNode[] = {
      {"GPU-9c2f", "00000000:1B:00.0", 1}, {"GPU-9d", "00000000:3D:00.0", 2}, {"GPU-a", "", 2}, {"GPU-b", "", 0}};
  const Selection selection = select(text, kNode);
  if (selection && (selection.count == 0 || selection.count > 4)) std::abort();
  return 0;
}
