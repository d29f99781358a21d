// What a daemon or somebody in its place answers: any text is a picture or an error, and a picture can be written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "snapshot/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::snapshot;
  const auto picture = from_json<Snapshot>({reinterpret_cast<const char*>(data), size});
  if (!picture) return 0;
  const auto again = from_json<Snapshot>(to_json(*picture));
  if (!again) std::abort();
  return 0;
}
