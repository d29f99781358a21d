// Joins parts to a message: message("line ", 7, ": ", reason). For the error paths of this room.
#pragma once

#include <sstream>
#include <string>

namespace headgate::sim {

template <typename... Parts>
[[nodiscard]] std::string message(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace headgate::sim
