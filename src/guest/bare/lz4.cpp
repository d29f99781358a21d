#include "guest/bare/lz4.hpp"

#include <cstring>

namespace headgate::bare {
namespace {

struct Input {
  const std::uint8_t* at;
  const std::uint8_t* end;

  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end - at); }

  // Reads a length. `low` is its first four bits; 15 means more bytes follow, all 255 but the last. False at the end.
  bool length(std::size_t low, std::size_t& out) {
    out = low;
    if (low != 15) return true;
    for (;;) {
      if (at == end) return false;
      const std::uint8_t more = *at++;
      if (__builtin_add_overflow(out, more, &out)) return false;
      if (more != 255) return true;
    }
  }
};

constexpr std::size_t kShortestMatch = 4;

}  // namespace

bool unpack_lz4(const std::uint8_t* block, std::size_t block_bytes, std::uint8_t* out, std::size_t bytes) {
  Input in{block, block + block_bytes};
  std::size_t done = 0;
  while (in.at != in.end) {
    const std::uint8_t token = *in.at++;
    std::size_t literals = 0, match = 0;
    if (!in.length(token >> 4, literals) || literals > in.left() || literals > bytes - done) return false;
    if (literals != 0) std::memcpy(out + done, in.at, literals);
    in.at += literals;
    done += literals;
    if (in.at == in.end) return done == bytes;  // the last sequence has no match
    if (in.left() < 2) return false;
    const std::size_t offset = in.at[0] | static_cast<std::size_t>(in.at[1]) << 8;
    in.at += 2;
    if (offset == 0 || offset > done || !in.length(token & 15, match)) return false;
    if (match > bytes || (match += kShortestMatch) > bytes - done) return false;
    // Byte by byte, because a match may overlap its own output.
    for (std::size_t i = 0; i < match; ++i) out[done + i] = out[done + i - offset];
    done += match;
  }
  return false;
}

}  // namespace headgate::bare
