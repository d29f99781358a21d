#include "sim/fat_binary.hpp"

#include <cstdint>
#include <cstring>

#include "guest/abi/fat_binary.hpp"
#include "guest/bare/lz4.hpp"

namespace headgate::sim::ptx {
namespace {

using abi::FatContainer, abi::FatEntry, abi::FatWrapper;

constexpr std::uint64_t kLargestText = 256ull << 20;

template <typename T>
T read(const std::uint8_t* at) {
  T out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

std::optional<std::string> text_of(const FatEntry& entry, const std::uint8_t* payload) {
  if ((entry.flags & abi::kFatLz4) == 0) {
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
  const auto head = read<FatContainer>(begin);
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
    if (entry.kind == abi::kFatPtx && (entry.flags & abi::kFatZstd) == 0 && newer)
      chosen = entry, payload = at + entry.header_bytes;
    at += entry.header_bytes + entry.padded_bytes;
    left -= entry.header_bytes + entry.padded_bytes;
  }
  if (payload == nullptr) return std::nullopt;
  return text_of(chosen, payload);
}

const void* container_of_wrapper(const void* wrapper) {
  return reinterpret_cast<const void*>(read<FatWrapper>(static_cast<const std::uint8_t*>(wrapper)).container);
}

}  // namespace headgate::sim::ptx
