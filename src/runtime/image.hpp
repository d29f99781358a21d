// Inspects an image for whether its programs can load the limiter. Opens files inside the image's root, so that no link
// leads out of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/elf.hpp"
#include "oci/container_config.hpp"

namespace headgate::runtime {

// Returns a version such as "2.36" from the bytes of a libc.so.6; empty if it contains none.
[[nodiscard]] std::string glibc_version(std::string_view bytes);

struct ImageFacts {
  std::optional<ElfFile> program;  // the container's first program; empty: missing or not a program
  bool has_musl = false;
  std::optional<std::string> glibc;  // its version; empty: no glibc in the image
  std::string preload_list;          // the image's
};

// Returns why its programs cannot load the limiter, to follow "the image: "; empty if they can.
[[nodiscard]] std::string limiter_trouble(const ImageFacts& facts);

// `root`: the path on the host. Unreadable files count as missing.
[[nodiscard]] ImageFacts look_at_image(const std::string& root, const oci::ContainerConfig& config);

}  // namespace headgate::runtime
