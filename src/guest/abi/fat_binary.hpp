// Fat binaries as nvcc lays them out. A wrapper points at a container: a header, then entries, each with a header and a
// padded payload. Undocumented by NVIDIA; observed in output of nvcc 11.8 and 13.0 in all compression modes. The
// contents are the program's, so a reader checks each size.
#pragma once

#include <cstdint>

namespace headgate::abi {

inline constexpr std::uint32_t kFatWrapperMagic = 0x466243b1, kFatContainerMagic = 0xba55ed50;

// From version 2 on the wrapper may point at a null-terminated list of containers.
struct FatWrapper {
  std::uint32_t magic, version;
  std::uint64_t container, list;  // addresses in the program's memory
};
static_assert(sizeof(FatWrapper) == 24);

struct FatContainer {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // of all entries
};
static_assert(sizeof(FatContainer) == 16);

inline constexpr std::uint16_t kFatPtx = 1, kFatCubin = 2;           // FatEntry::kind
inline constexpr std::uint64_t kFatLz4 = 0x2000, kFatZstd = 0x8000;  // FatEntry::flags

// The start of an entry's header. The rest of its header_bytes is not used.
struct FatEntry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t padded_bytes;
  std::uint32_t packed_bytes, options;
  std::uint16_t minor, major;
  std::uint32_t architecture, name, name_bytes;
  std::uint64_t flags, zero, full_bytes;  // full_bytes: unpacked
};
static_assert(sizeof(FatEntry) == 64);

}  // namespace headgate::abi
