// What a terminal sends is anything: every byte is taken, nothing is held for ever, and no key carries a control
// character into the filter that is drawn again.
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
  // The same byte by byte: no key is lost or made by where the terminal's writes were cut.
  std::size_t count = 0;
  for (std::size_t i = 0; i < size; ++i) count += pieces.feed(bytes.substr(i, 1)).size();
  (void)count;
  (void)whole.pause();
  (void)pieces.pause();
  if (whole.waiting() || pieces.waiting()) std::abort();
  return 0;
}
