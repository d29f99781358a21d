#include "cli/term/output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/utf8.hpp"
#include "cli/term/frame.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

// On a narrow terminal, the first column (names) shrinks.
void narrow(std::vector<unsigned>& widths, const Voice& voice) {
  if (voice.columns == 0 || widths.empty()) return;
  const std::size_t all = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
  constexpr std::size_t kLeast = 12;
  if (all > voice.columns && widths[0] > kLeast)
    widths[0] =
        static_cast<unsigned>(std::max(kLeast, widths[0] - std::min<std::size_t>(widths[0], all - voice.columns)));
}

void write_line(const std::string& line) {
  // A single write, so that lines of several processes do not interleave. Errors are ignored: stderr may be closed.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

std::string format_name(Format format) {
  constexpr const char* kNames[] = {"table", "wide", "json", "jsonl", "csv"};
  return kNames[static_cast<std::size_t>(format)];
}

void say(std::string_view text) { write_line("headgate: " + harmless(text) + "\n"); }

void complain(const Error& error, const Voice& voice) {
  if (is_json(voice.format)) {
    const Json object = {
        {"schema", "headgate.error/v1"},
        {"error", {{"code", error_word(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
    return write_line(compact_json(object) + "\n");
  }
  write_line("headgate: " + harmless(error.message) + "\n" +
             (error.hint.empty() ? "" : "          " + harmless(error.hint) + "\n"));
}

bool print(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

std::string table(const std::vector<std::vector<std::string>>& rows, const Voice& voice, bool heading) {
  std::vector<unsigned> widths;
  const auto shown = [&voice](const std::string& cell) {
    return harmless(std::string_view(cell).substr(cell.starts_with('\t') ? 1 : 0), voice);
  };
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], cells(shown(row[i])));
  }
  narrow(widths, voice);
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string cell = i == 0 ? cut(shown(rows[r][i]), widths[0]) : shown(rows[r][i]);
      const std::string padding(widths[i] - cells(cell), ' ');
      if (i > 0) line += "  ";
      if (rows[r][i].starts_with('\t')) line += padding;
      line += cell;
      if (!rows[r][i].starts_with('\t')) line += padding;
    }
    while (line.ends_with(' ')) line.pop_back();
    text += (r == 0 && heading ? bold(line, voice) : line) + "\n";
  }
  return text;
}

std::string bold(std::string_view text, const Voice& voice) {
  return voice.colour ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
}

std::string warning(std::string_view text, const Voice& voice) {
  return voice.colour ? "\x1b[33m" + std::string(text) + "\x1b[0m" : std::string(text);
}

std::string harmless(std::string_view text) { return printable(text); }

std::string harmless(std::string_view text, const Voice& voice) {
  std::string clean = printable(text);
  if (voice.ascii) std::ranges::replace_if(clean, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  return clean;
}

std::string pretty_json(const Json& json) { return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n"; }
std::string compact_json(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

bool can_ask() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1; }

Answer ask_user(std::string_view question, std::chrono::seconds time) {
  using Clock = std::chrono::steady_clock;
  std::cerr << question << " [y/N] " << std::flush;
  const auto end = Clock::now() + time;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (time.count() > 0 && left.count() <= 0) break;
    pollfd on{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready =
        ::poll(&on, 1, time.count() == 0 ? -1 : static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (ready < 0 && errno != EINTR) break;
    if (ready <= 0) continue;
    // A terminal in canonical mode delivers whole lines.
    std::string line;
    if (!std::getline(std::cin, line)) break;
    return line == "y" || line == "Y" || line == "yes" ? Answer::yes : Answer::no;
  }
  std::cerr << "\n";
  return Answer::none;
}

}  // namespace headgate::cli
