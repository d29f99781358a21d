#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::config;
  Reading reading = defaults();
  read_text({reinterpret_cast<const char*>(data), size}, "fuzz.toml", reading);
  for (const auto& error : reading.errors) {
    if (error.message.empty() || error.hint.empty()) std::abort();
  }
  if (reading.config.settings.size() < keys().size()) std::abort();
  return 0;
}
