// Amounts as people write them: memory ("8GiB", "8G", "8GB", "50%") and compute ("50%", "0.5", "500m").
// Decimal digits are never turned into floating point: a result is exact, or rounded down where the unit is finer than
// a byte or than a millionth of a GPU, so that nobody gets more than they wrote. Pure, allocation-free, thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace headgate::grant {

// Why a value was not accepted.
enum class Fault : std::uint8_t {
  none,
  empty,         // nothing, or only blanks
  junk,          // not of the accepted form
  negative,      // a minus sign
  zero,          // zero, or less than one byte or one millionth
  bare_number,   // a number without a unit where we insist on one
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

// Whose meaning a text has.
enum class Dialect : std::uint8_t {
  headgate,      // a unit is required; '%' is allowed; compute as %, ratio or milli-GPU
  bare_bytes,    // foreign memory names: a bare number is bytes, K/M/G/T are binary; 0x.. is hexadecimal; no '%'
  bare_percent,  // foreign compute names: a number from 1 to 100, '%' allowed
};

inline constexpr std::uint32_t kWholePpm = 1'000'000;

// So many bytes, or so many millionths of a card whose size is not known yet. Exactly one of the two is not zero in a
// parsed value; both are zero in "nothing said".
struct Memory {
  std::uint64_t bytes = 0;
  std::uint32_t ppm = 0;

  friend bool operator==(const Memory&, const Memory&) = default;
  [[nodiscard]] bool said() const { return bytes != 0 || ppm != 0; }
  // In bytes on a card of that many bytes; a part of a card is rounded down.
  [[nodiscard]] std::uint64_t on(std::uint64_t card_bytes) const;
};

[[nodiscard]] Parsed<Memory> parse_memory(std::string_view text, Dialect dialect = Dialect::headgate);

// Millionths of one GPU's time, 1..kWholePpm.
[[nodiscard]] Parsed<std::uint32_t> parse_compute(std::string_view text, Dialect dialect = Dialect::headgate);

// What to write instead, for a message.
[[nodiscard]] std::string_view accepted_memory(Dialect dialect);
[[nodiscard]] std::string_view accepted_compute(Dialect dialect);

// "is empty", "is zero", ... to follow a variable or option and its value in a sentence.
[[nodiscard]] std::string_view describe(Fault fault);

}  // namespace headgate::grant
