// Any bytes: parse returns, and what it accepts can be launched without reading outside the parameter block.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sim/ptx.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace ptx = headgate::sim::ptx;
  const std::string image(reinterpret_cast<const char*>(data), size);
  // Only a fat binary's own sizes tell where it ends. Input with a size beyond its end is the caller's error. So is a
  // wrapper, which holds an address.
  const ptx::ImageKind kind = ptx::image_kind(image.c_str());
  std::uint64_t said = 0;
  std::uint16_t head = 0;
  if (kind == ptx::ImageKind::fatbin && size >= 16) {
    std::memcpy(&said, data + 8, sizeof said);
    std::memcpy(&head, data + 6, sizeof head);
  }
  const bool whole = kind != ptx::ImageKind::fatbin || (size >= 16 && head <= size && said <= size - head);
  if (whole && kind != ptx::ImageKind::fatbin_wrapper) static_cast<void>(ptx::parse_image(image.c_str()));
  const auto module = ptx::parse(image);
  if (!module) {
    if (module.error().message.empty()) std::abort();
    return 0;
  }
  for (const ptx::Entry& entry : module->entries) {
    for (const ptx::Parameter& parameter : entry.parameters) {
      if (parameter.offset_bytes % parameter.alignment_bytes != 0) std::abort();
      if (parameter.offset_bytes + parameter.size_bytes > entry.parameter_bytes) std::abort();
    }
    const std::vector<std::byte> block(entry.parameter_bytes);
    static_cast<void>(ptx::duration_ns(entry, block));
    static_cast<void>(ptx::duration_ns(entry, {}));
    if (entry.behaviour.wait_parameter && !ptx::address_parameter(entry, *entry.behaviour.wait_parameter, block))
      std::abort();
    if (entry.behaviour.set_parameter && !ptx::address_parameter(entry, *entry.behaviour.set_parameter, block))
      std::abort();
  }
  return 0;
}
