// What a module image is; PTX is all that the simulated GPU loads.
#include <algorithm>

#include "sim/fat_binary.hpp"
#include "sim/message.hpp"
#include "sim/ptx.hpp"

namespace headgate::sim::ptx {

ImageKind image_kind(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  if (bytes == nullptr || bytes[0] == 0) return ImageKind::empty;
  const auto starts = [bytes](std::initializer_list<unsigned char> magic) {
    std::size_t i = 0;
    return std::ranges::all_of(magic, [&](unsigned char expected) { return bytes[i++] == expected; });
  };
  if (starts({0x7f, 'E', 'L', 'F'})) return ImageKind::elf;
  if (starts({0x50, 0xed, 0x55, 0xba})) return ImageKind::fatbin;
  if (starts({0xb1, 0x43, 0x62, 0x46})) return ImageKind::fatbin_wrapper;
  const bool text = (bytes[0] >= ' ' && bytes[0] < 0x7f) || (bytes[0] >= '\t' && bytes[0] <= '\r');
  return text ? ImageKind::ptx : ImageKind::unknown;
}

std::string_view words_for(ImageKind kind) {
  switch (kind) {
    case ImageKind::ptx: return "PTX text";
    case ImageKind::elf: return "a cubin (ELF)";
    case ImageKind::fatbin: return "a fat binary";
    case ImageKind::fatbin_wrapper: return "a fat binary's wrapper";
    case ImageKind::empty: return "empty";
    case ImageKind::unknown: break;
  }
  return "neither PTX text nor a binary that we know";
}

Result<Module> parse_image(const void* image) {
  const ImageKind kind = image_kind(image);
  if (kind == ImageKind::ptx) return parse(static_cast<const char*>(image));
  if (kind == ImageKind::fatbin || kind == ImageKind::fatbin_wrapper) {
    const void* const container = kind == ImageKind::fatbin ? image : container_of_wrapper(image);
    if (image_kind(container) == ImageKind::fatbin) {
      if (const auto text = ptx_of_container(container)) return parse(*text);
    }
  }
  const ErrorCode code =
      kind == ImageKind::empty || kind == ImageKind::unknown ? ErrorCode::usage : ErrorCode::unsupported;
  return fail(
      code, message("the module image is ", words_for(kind)),
      "the simulated GPU loads PTX, as text or in a fat binary, there plain or packed with LZ4: compile with nvcc "
      "-ptx, or -gencode arch=compute_90,code=compute_90 --compress-mode=none");
}

}  // namespace headgate::sim::ptx
