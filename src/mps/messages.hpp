// Parts of the manager's messages.
#pragma once

#include <string>

#include "base/result.hpp"

namespace headgate::mps {

template <typename Pids>
[[nodiscard]] std::string list_of(const Pids& pids) {
  std::string text;
  for (const auto pid : pids) text += (text.empty() ? "" : ", ") + std::to_string(pid);
  return text.empty() ? "none" : text;
}

inline std::string whole_text(const Error& error) {
  return error.message + (error.hint.empty() ? "" : "; " + error.hint);
}

}  // namespace headgate::mps
