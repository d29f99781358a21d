#include "sim/fat_binary.hpp"

#include <cstdint>
#include <cstring>

#include "guest/bare/lz4.hpp"

namespace headgate::sim::ptx {
namespace {

struct Container {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};
struct FatEntry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t padded_bytes;
  std::uint32_t packed_bytes, options;
  std::uint16_t minor, major;
  std::uint32_t architecture, name, name_bytes;
  std::uint64_t flags, zero, full_bytes;
};
static_assert(sizeof(FatEntry) == 64);
struct Wrapper {
  std::uint32_t magic, version;
  const void *container, *list;
};
constexpr std::uint64_t kLz4Packed = 0x2000, kZstdPacked = 0x8000, kLargestText = 256ull << 20;
constexpr std::uint16_t kPtxEntry = 1;

template <typename T>
T read(const std::uint8_t* at) {
  T out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

std::optional<std::string> text_of(const FatEntry& entry, const std::uint8_t* payload) {
  if ((entry.flags & kLz4Packed) == 0) {
    const auto* const text = reinterpret_cast<const char*>(payload);
    return std::string(text, ::strnlen(text, entry.padded_bytes));
  }
  if (entry.full_bytes > kLargestText || entry.packed_bytes > entry.padded_bytes) return std::nullopt;
  std::string text(entry.full_bytes, '\0');
  if (!bare::unpack_lz4(payload, entry.packed_bytes, reinterpret_cast<std::uint8_t*>(text.data()), text.size()))
    return std::nullopt;
  text.resize(::strnlen(text.data(), text.size()));
  return text;
}

}  // namespace

std::optional<std::string> ptx_of_container(const void* container) {
  const auto* const begin = static_cast<const std::uint8_t*>(container);
  const auto head = read<Container>(begin);
  std::uint64_t left = head.bytes;
  const std::uint8_t* at = begin + head.header_bytes;
  FatEntry chosen{};
  const std::uint8_t* payload = nullptr;
  while (left >= sizeof(FatEntry)) {
    const auto entry = read<FatEntry>(at);
    if (entry.header_bytes < sizeof entry || entry.header_bytes > left ||
        entry.padded_bytes > left - entry.header_bytes)
      return std::nullopt;
    const bool newer = payload == nullptr || entry.architecture > chosen.architecture;
    if (entry.kind == kPtxEntry && (entry.flags & kZstdPacked) == 0 && newer)
      chosen = entry, payload = at + entry.header_bytes;
    at += entry.header_bytes + entry.padded_bytes;
    left -= entry.header_bytes + entry.padded_bytes;
  }
  if (payload == nullptr) return std::nullopt;
  return text_of(chosen, payload);
}

const void* container_of_wrapper(const void* wrapper) {
  return read<Wrapper>(static_cast<const std::uint8_t*>(wrapper)).container;
}

}  // namespace headgate::sim::ptx
