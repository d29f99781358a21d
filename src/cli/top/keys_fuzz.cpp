// Terminal input is untrusted: every byte must be consumed, none held indefinitely, and no key may carry a control
// character into the filter text that is drawn.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/term/output.hpp"
#include "cli/top/keys.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::cli;
  KeyReader whole, pieces;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const Key& key : whole.feed(bytes)) {
    if (key.kind == KeyKind::text && harmless(key.text) != key.text) std::abort();
  }
  // The same byte by byte: where the input is split must not add or lose keys.
  std::size_t count = 0;
  for (std::size_t i = 0; i < size; ++i) count += pieces.feed(bytes.substr(i, 1)).size();
  (void)count;
  (void)whole.pause();
  (void)pieces.pause();
  if (whole.waiting() || pieces.waiting()) std::abort();
  return 0;
}
