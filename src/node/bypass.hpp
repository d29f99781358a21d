// Why nothing holds a process that uses a GPU: what of it can be seen from outside, for a person to read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace headgate::node {

// "it is statically linked", "the limiter is not loaded; its driver library is /tmp/x.so; it has a mount namespace of
// its own". Empty where nothing is to be seen. `proc`: where /proc lies. Reads what belongs to the process: nothing of
// it is believed but shown, and what it may cost is bounded (two seconds of processor time; by files, bytes and symbols
// far less). It may block all the same.
[[nodiscard]] std::string how_it_goes_around(std::uint32_t pid, const std::string& proc);

struct TrustedProgram {
  std::string name;  // of its file, which nobody but root can have given it; empty: somebody can
  // Set where an ordinary user runs it, who can have loaded any code into it (LD_PRELOAD): the same of root's process
  // that started it; empty where none did.
  std::optional<std::string> parent;
};

// The file is root's, and root's folders alone lead to it without a link, where this process sees it or where root's
// process that started it does. Of root's own processes, in a container too, the file is enough.
[[nodiscard]] TrustedProgram trusted_program(std::uint32_t pid, const std::string& proc);

}  // namespace headgate::node
