// What an image is made of, as far as it decides whether its programs can load the limiter. Its files are opened inside
// its root: no link of an image leads out of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/elf.hpp"
#include "oci/container_config.hpp"

namespace headgate::runtime {

// "2.36" of the bytes of a libc.so.6; empty: it says none.
[[nodiscard]] std::string glibc_version(std::string_view bytes);

struct ImageFacts {
  std::optional<ElfFile> program;  // the container's first; empty: it is not in the image, or no program
  bool has_musl = false;
  std::optional<std::string> glibc;  // its version; empty: the image has none
  std::string preload_list;          // its own
};

// Why its programs cannot load the limiter, in words that follow "the image: "; empty: they can.
[[nodiscard]] std::string limiter_trouble(const ImageFacts& facts);

// `root`: as the host sees it. What cannot be read is as what is not there.
[[nodiscard]] ImageFacts look_at_image(const std::string& root, const oci::ContainerConfig& config);

}  // namespace headgate::runtime
