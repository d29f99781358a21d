// Any bytes give events; formatted and parsed again, they are the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "http/event_text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::http;
  EventReader reader(512);
  (void)reader.feed({reinterpret_cast<const char*>(data), size});
  while (const auto event = reader.next()) {
    EventReader again;
    if (!again.feed(event_text(*event))) std::abort();
    const auto same = again.next();
    // A NUL in a name is accepted from others, but we never send one.
    if (!same || same->data != event->data || same->id != event->id) std::abort();
    if (event->name.find('\0') == std::string::npos && same->name != event->name) std::abort();
  }
  return 0;
}
