#include "cli/output.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace headgate::cli {
namespace {

std::string_view code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::failed: return "failed";
    case ErrorCode::usage: return "usage";
    case ErrorCode::unreachable: return "unreachable";
    case ErrorCode::no_capacity: return "no_capacity";
    case ErrorCode::denied: return "denied";
    case ErrorCode::unsupported: return "unsupported";
  }
  return "failed";
}

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

void say(std::string_view text) {
  std::string line = "headgate: ";
  line += text;
  line += '\n';
  // One write, so that lines of several processes do not mix. Nothing can be done where stderr is gone.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void complain(const Error& error, const Voice& voice) {
  if (voice.format == Format::json) {
    const nlohmann::ordered_json object = {
        {"schema", "headgate.error/v1"},
        {"error", {{"code", code_name(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
    const std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    std::fwrite(text.data(), 1, text.size(), stderr);
    return;
  }
  say(error.message + (error.hint.empty() ? "" : "\n          " + error.hint));
}

bool print(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

std::string table(const std::vector<std::vector<std::string>>& rows, const Voice& voice) {
  std::vector<std::size_t> widths;
  const auto shown = [](const std::string& cell) { return cell.starts_with('\t') ? std::string_view(cell).substr(1) : std::string_view(cell); };
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(shown(row[i])));
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string_view cell = shown(rows[r][i]);
      const std::string padding(widths[i] - width(cell), ' ');
      if (i > 0) line += "  ";
      if (rows[r][i].starts_with('\t')) line += padding;
      line += cell;
      if (!rows[r][i].starts_with('\t')) line += padding;
    }
    while (line.ends_with(' ')) line.pop_back();
    text += (r == 0 ? bold(line, voice) : line) + "\n";
  }
  return text;
}

std::string bold(std::string_view text, const Voice& voice) {
  return voice.colour ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
}

std::string warning(std::string_view text, const Voice& voice) {
  return voice.colour ? "\x1b[33m" + std::string(text) + "\x1b[0m" : std::string(text);
}

std::string harmless(std::string_view text) {
  std::string clean(text);
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return clean;
}

}  // namespace headgate::cli
