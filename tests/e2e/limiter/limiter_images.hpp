// Images for cuModuleLoadData and its like: PTX, and a fat binary of it.
#pragma once

#include <cstdint>
#include <string>

namespace headgate::e2e {

// Returns PTX of a module with a static array of that size.
inline std::string image_with(std::uint64_t bytes) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .global .align 8 .b8 grid[" + std::to_string(bytes) +
         "];\n.visible .entry k() { ret; }\n";
}
// The same, packed into a fat binary with LZ4 as by nvcc: literals only.
inline std::string packed_with(std::uint64_t bytes) {
  const std::string text = image_with(bytes);
  std::string payload = "\xf0";
  std::size_t rest = text.size() + 1 - 15;  // includes the NUL
  for (; rest >= 255; rest -= 255) payload += '\xff';
  payload += static_cast<char>(rest);
  payload.append(text.c_str(), text.size() + 1);
  const auto bytes_of = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const std::string entry = bytes_of(std::uint16_t{1}) + bytes_of(std::uint16_t{0x101}) + bytes_of(std::uint32_t{64}) +
                            bytes_of(std::uint64_t{payload.size()}) +
                            bytes_of(static_cast<std::uint32_t>(payload.size())) + std::string(8, '\0') +
                            bytes_of(std::uint32_t{80}) + std::string(8, '\0') + bytes_of(std::uint64_t{0x2001}) +
                            std::string(8, '\0') + bytes_of(std::uint64_t{text.size() + 1}) + payload;
  return bytes_of(std::uint32_t{0xba55ed50}) + bytes_of(std::uint16_t{1}) + bytes_of(std::uint16_t{16}) +
         bytes_of(std::uint64_t{entry.size()}) + entry;
}

// Returns PTX of a module with that much code (whole KiB) and a small array. The text is longer by a comment.
inline std::string image_of_code(std::uint64_t bytes, std::uint64_t comment_bytes = 0) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .global .align 8 .b8 grid[352];\n"
         ".visible .entry k() { .pragma \"headgate.sim.code " +
         std::to_string(bytes / 1024) + "\"; ret; }\n" +
         (comment_bytes == 0 ? "" : "// " + std::string(comment_bytes, '-') + "\n");
}

}  // namespace headgate::e2e
