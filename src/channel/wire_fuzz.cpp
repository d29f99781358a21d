// Any bytes are an agent's answer or none, and a time to wait within the limits or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "channel/wire.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::channel;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (parse_leave(text) && !is_json(text)) std::abort();
  const auto wait = parse_wait(text, std::chrono::seconds(50));
  if (wait && (*wait < std::chrono::milliseconds(0) || *wait > std::chrono::seconds(50))) std::abort();
  return 0;
}
