// Parses memory ("8GiB", "8G", "8GB", "50%") and compute ("50%", "0.5", "500m") as users write them. Never converts to
// floating point: a result is exact, or rounded down to a byte or a millionth of a GPU, so it never exceeds what was
// written. Pure, allocation-free, thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace headgate::grant {

// Why a value was not accepted.
enum class Fault : std::uint8_t {
  none,
  empty,         // empty or only blanks
  junk,          // not in the accepted format
  negative,      // a minus sign
  zero,          // zero, or less than one byte or one millionth
  bare_number,   // a number without a unit where one is required
  overflow,      // does not fit 64 bits
  out_of_range,  // more than a whole card or GPU
  over_card,     // more bytes than the card that it is for has
  no_such_gpu,   // it is for a GPU that is not here
  without_hard,  // a burst or soft limit without a limit that it could be above
  unknown_card,  // TFLOPS of a card that is in no table
  unknown_name,  // a variable of a name that nothing reads, which begins as that of a limit
};

template <typename T>
struct Parsed {
  T value{};
  Fault fault = Fault::none;

  explicit operator bool() const { return fault == Fault::none; }
};

// How a text is interpreted.
enum class Dialect : std::uint8_t {
  headgate,      // a unit is required; '%' is allowed; compute as %, ratio or milli-GPU
  bare_bytes,    // foreign memory names: a bare number is bytes, K/M/G/T are binary; 0x.. is hexadecimal; no '%'
  bare_percent,  // foreign compute names: a number from 1 to 100, '%' allowed
};

inline constexpr std::uint32_t kWholePpm = 1'000'000;

// Bytes, or millionths of a card of unknown size. A parsed value has one of the two; both are zero if nothing was set.
struct Memory {
  std::uint64_t bytes = 0;
  std::uint32_t ppm = 0;

  friend bool operator==(const Memory&, const Memory&) = default;
  [[nodiscard]] bool said() const { return bytes != 0 || ppm != 0; }
  // Returns bytes on a card of that size; a fraction of a card is rounded down.
  [[nodiscard]] std::uint64_t on(std::uint64_t card_bytes) const;
};

[[nodiscard]] Parsed<Memory> parse_memory(std::string_view text, Dialect dialect = Dialect::headgate);

// Parses millionths of one GPU's time, 1..kWholePpm.
[[nodiscard]] Parsed<std::uint32_t> parse_compute(std::string_view text, Dialect dialect = Dialect::headgate);

// Parses a number from 1 to 1000, in millionths.
[[nodiscard]] Parsed<std::uint32_t> parse_ratio(std::string_view text);

// Return the accepted formats, for a message.
[[nodiscard]] std::string_view accepted_memory(Dialect dialect);
[[nodiscard]] std::string_view accepted_compute(Dialect dialect);

// Returns "is empty", "is zero", ... to follow a variable or option and its value in a sentence.
[[nodiscard]] std::string_view describe(Fault fault);

}  // namespace headgate::grant
