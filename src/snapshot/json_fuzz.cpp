// Replies are untrusted: any text gives a snapshot or an error, and a snapshot can be written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "snapshot/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::snapshot;
  const auto snapshot = from_json<Snapshot>({reinterpret_cast<const char*>(data), size});
  if (!snapshot) return 0;
  const auto again = from_json<Snapshot>(to_json(*snapshot));
  if (!again) std::abort();
  return 0;
}
