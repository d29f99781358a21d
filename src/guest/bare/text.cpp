#include "guest/bare/text.hpp"

namespace headgate::bare {

Text& Text::add(char c) {
  if (size_ + 1 >= buffer_.size()) {
    full_ = true;
    return *this;
  }
  buffer_[size_++] = c;
  buffer_[size_] = 0;
  return *this;
}

Text& Text::add(std::string_view text) {
  for (const char c : text) add(c);
  return *this;
}

Text& Text::add_printable(std::string_view text) {
  for (const char c : text) add(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c);
  return *this;
}

Text& Text::add_decimal(std::uint64_t value) {
  char digits[20];
  std::size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (count != 0) add(digits[--count]);
  return *this;
}

Text& Text::add_signed(std::int64_t value) {
  if (value >= 0) return add_decimal(static_cast<std::uint64_t>(value));
  add('-');
  return add_decimal(0 - static_cast<std::uint64_t>(value));
}

Text& Text::add_hex(std::uint64_t value) {
  char digits[16];
  std::size_t count = 0;
  do {
    digits[count++] = "0123456789abcdef"[value & 15];
    value >>= 4;
  } while (value != 0);
  while (count != 0) add(digits[--count]);
  return *this;
}

Text& Text::add_format(const char* format, va_list arguments) {
  for (const char* at = format; *at != 0; ++at) {
    if (*at != '%') {
      add(*at);
      continue;
    }
    const char* start = at++;
    bool wide = false;
    while (*at == 'l' || *at == 'z') {
      wide = true;
      ++at;
    }
    switch (*at) {
      case 's': {
        const char* text = va_arg(arguments, const char*);
        add(std::string_view(text == nullptr ? "(null)" : text));
        break;
      }
      case 'c': add(static_cast<char>(va_arg(arguments, int))); break;
      case 'd': add_signed(wide ? va_arg(arguments, long) : va_arg(arguments, int)); break;
      case 'u': add_decimal(wide ? va_arg(arguments, unsigned long) : va_arg(arguments, unsigned)); break;
      case 'x': add_hex(wide ? va_arg(arguments, unsigned long) : va_arg(arguments, unsigned)); break;
      case '%': add('%'); break;
      case 0: return add(std::string_view(start, static_cast<std::size_t>(at - start)));
      default: add(std::string_view(start, static_cast<std::size_t>(at - start) + 1));
    }
  }
  return *this;
}

}  // namespace headgate::bare
