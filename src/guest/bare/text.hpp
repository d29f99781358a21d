// Formats text into the caller's buffer: no locale, no allocation, no C++ runtime.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace headgate::bare {

// Always NUL-terminated; text that does not fit is cut.
class Text {
 public:
  explicit Text(std::span<char> buffer) : buffer_(buffer) {
    if (!buffer_.empty()) buffer_[0] = 0;
  }

  Text& add(std::string_view text);
  Text& add(char c);
  template <typename... Parts>
  Text& add(std::string_view first, Parts... parts) {
    return (add(first), ..., add(parts));
  }
  // Replaces control characters, which could change a terminal, by '?'.
  Text& add_printable(std::string_view text);
  Text& add_decimal(std::uint64_t value);
  Text& add_signed(std::int64_t value);
  Text& add_hex(std::uint64_t value);

  // Supports %s %c %d %u %x %ld %lu %lx %lld %llu %llx %zu %% of printf; copies an unknown conversion as written.
  Text& add_format(const char* format, va_list arguments);

  [[nodiscard]] std::string_view view() const { return {buffer_.data(), size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }
  // Returns whether text was cut.
  [[nodiscard]] bool full() const { return full_; }

 private:
  std::span<char> buffer_;
  std::size_t size_ = 0;
  bool full_ = false;
};

}  // namespace headgate::bare
