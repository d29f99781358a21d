#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "power/rapl.hpp"

// Powercap input: a counter, a folder name, and a sequence of readings.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::power;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto counter = parse_counter(text);
  if (!counter && counter.error().message.empty()) std::abort();
  if (const auto number = package_number(text); number && !text.starts_with("intel-rapl:")) std::abort();
  WrappingCounter sum(size);
  std::uint64_t last = 0;
  for (const std::uint8_t reading : text) {
    const std::uint64_t now = sum.add(reading);
    if (now < last) std::abort();
    last = now;
  }
  return 0;
}
