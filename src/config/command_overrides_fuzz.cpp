#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/command_overrides.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::config;
  const auto parsed = parse_command_overrides({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  if (!parsed) {
    if (parsed.error().message.empty() || parsed.error().hint.empty()) std::abort();
    return 0;
  }
  for (const auto& [operation, one] : *parsed) {
    if (placeholders_of(operation).empty() || one.commands.empty()) std::abort();
    for (const auto& words : one.commands)
      if (words.empty()) std::abort();
  }
  return 0;
}
