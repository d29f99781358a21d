// Any bytes: YAML whose JSON the reader takes or refuses with a sentence, or a sentence about what is no YAML.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "oci/cdi_yaml.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document = headgate::oci::read_file_text("x.yaml", {reinterpret_cast<const char*>(data), size});
  if (!document && document.error().message.empty()) std::abort();
  return 0;
}
