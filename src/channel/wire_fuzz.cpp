// Any bytes give an assignment with a valid JSON payload, or an error that says what is missing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "channel/wire.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::channel;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto one = parse_assignment(text);
  if (one ? one->id == 0 || one->attempt == 0 || one->payload.empty() : one.error().message.empty()) std::abort();
  const auto many = parse_assignments(text);
  if (!many && many.error().message.empty()) std::abort();
  (void)parse_leave(text);
  (void)parse_granted(text);
  (void)parse_cancelled(text);
  const auto wait = parse_wait(text, std::chrono::seconds(50));
  if (wait && (*wait < std::chrono::milliseconds(0) || *wait > std::chrono::seconds(50))) std::abort();
  return 0;
}
