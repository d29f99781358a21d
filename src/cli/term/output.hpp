// Output: data goes to stdout, messages and questions for the user to stderr.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::cli {

// wide: a table with more columns; jsonl: one JSON object per line.
enum class Format { table, wide, json, jsonl, csv };
[[nodiscard]] constexpr bool is_table(Format format) { return format == Format::table || format == Format::wide; }
[[nodiscard]] constexpr bool is_json(Format format) { return format == Format::json || format == Format::jsonl; }

[[nodiscard]] std::string format_name(Format format);

// Output settings of this run, from options, environment and terminals.
struct Voice {
  Format format = Format::table;
  bool colour = false;      // stdout is a terminal, TERM is not dumb, and neither NO_COLOR nor --no-color is set
  bool ascii = false;       // only ASCII on stdout
  std::size_t columns = 0;  // width of the terminal on stdout; 0 if there is none
  bool quiet = false;
  bool verbose = false;
  bool talk = false;                             // remarks are on: stderr is a terminal, or -v was given
  std::vector<std::string> columns_of_csv = {};  // --columns: only these, in this order; empty: all
};

// Prints "headgate: TEXT" to stderr. This and complain() replace control characters.
void say(std::string_view text);
// Prints "headgate: MESSAGE" and the indented hint to stderr; in JSON an object with code, message and hint.
void complain(const Error& error, const Voice& voice);
// Prints data to stdout. Returns false if that fails (full disk, closed pipe).
bool print(std::string_view text);

// Formats a table of left-aligned columns, two spaces apart, with a heading row. A cell that begins with '\t' is
// right-aligned. Widths are terminal cells. Control characters are replaced. On a narrow terminal the first column is
// cut. `heading`: the first row is one.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows, const Voice& voice,
                                bool heading = true);

[[nodiscard]] std::string bold(std::string_view text, const Voice& voice);
[[nodiscard]] std::string warning(std::string_view text, const Voice& voice);
// Replaces control characters and invalid UTF-8 with '?': names come from untrusted programs.
[[nodiscard]] std::string harmless(std::string_view text);
// The same; with --ascii also what is beyond ASCII.
[[nodiscard]] std::string harmless(std::string_view text, const Voice& voice);

// Returns JSON in ASCII, because names of processes and directories are untrusted: indented and with a line feed, or on
// one line without.
[[nodiscard]] std::string pretty_json(const nlohmann::ordered_json& json);
[[nodiscard]] std::string compact_json(const nlohmann::ordered_json& json);

// Returns true if stdin and stderr are terminals.
[[nodiscard]] bool can_ask();
enum class Answer { yes, no, none };
// Asks, and takes y and yes for yes. Returns `none` if no line came within `time` (0: no limit) or stdin ended.
[[nodiscard]] Answer ask_user(std::string_view question, std::chrono::seconds time = std::chrono::seconds(0));

}  // namespace headgate::cli
