// Any bytes: the parser returns, and every error names its rule.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sim/fault_rules.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = headgate::sim::parse_faults({reinterpret_cast<const char*>(data), size});
  if (!parsed && !parsed.error().message.starts_with("fault rule '")) std::abort();
  return 0;
}
