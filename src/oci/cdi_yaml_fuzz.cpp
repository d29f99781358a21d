// Any bytes give an error, or YAML that becomes JSON, which is then accepted or refused with a message.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "oci/cdi_read.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document = headgate::oci::read_file_text("x.yaml", {reinterpret_cast<const char*>(data), size});
  if (!document && document.error().message.empty()) std::abort();
  return 0;
}
