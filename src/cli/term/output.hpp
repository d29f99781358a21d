// Where words go: data on stdout, everything said to a person on stderr.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::cli {

// wide: a table with more columns; jsonl: a JSON object a line.
enum class Format { table, wide, json, jsonl, csv };
[[nodiscard]] constexpr bool is_table(Format format) { return format == Format::table || format == Format::wide; }
[[nodiscard]] constexpr bool is_json(Format format) { return format == Format::json || format == Format::jsonl; }

// How this run of the command speaks; made once from options, environment and terminals.
struct Voice {
  Format format = Format::table;
  bool colour = false;      // stdout is a terminal, NO_COLOR and --no-color are not set, TERM is not dumb
  bool ascii = false;       // nothing beyond ASCII on stdout
  std::size_t columns = 0;  // of the terminal on stdout; 0 where it is none
  bool quiet = false;
  bool verbose = false;
  bool talk = false;  // stderr is a terminal, or -v: remarks are wanted
};

// "headgate: TEXT" on stderr, harmless as every line of these two.
void say(std::string_view text);
// "headgate: MESSAGE" and, indented below it, the hint; in JSON an object with code, message and hint. On stderr.
void complain(const Error& error, const Voice& voice);
// Data on stdout; false when stdout is gone (full disk, closed pipe).
bool print(std::string_view text);

// A table of left-aligned columns, two spaces apart; the first row is the heading. A cell that begins with '\t' is
// right-aligned. Widths count bytes of ASCII and code points of UTF-8. Every cell is made harmless; the
// first column is cut where the terminal is too narrow.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows, const Voice& voice);

[[nodiscard]] std::string bold(std::string_view text, const Voice& voice);
[[nodiscard]] std::string warning(std::string_view text, const Voice& voice);
// '?' in place of control characters and of bytes that are no UTF-8: names come from other people's programs.
[[nodiscard]] std::string harmless(std::string_view text);

}  // namespace headgate::cli
