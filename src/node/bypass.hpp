// Explains why no limiter holds a process that uses a GPU, as far as it shows from outside. For a person to read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace headgate::node {

// Returns "it is statically linked, so nothing can be preloaded", "the limiter is not loaded; it has a copy of the
// driver's library: /tmp/x.so; it has its own mount namespace". Empty if nothing shows. `proc`: where /proc lies.
// What it reads is the process's: it is shown, not believed, at a bounded cost (two seconds of processor time; by
// files, bytes and symbols far less). It may still block.
[[nodiscard]] std::string how_it_goes_around(std::uint32_t pid, const std::string& proc);

struct TrustedProgram {
  std::string name;  // of its file, if only root can have given it; else empty
  // Set if an ordinary user runs it, as that user can have loaded any code into it (LD_PRELOAD). It is then the name of
  // root's process that started it; empty if none did.
  std::optional<std::string> parent;
};

// The file must be root's, and only root's folders may lead to it without a link. Where this process sees it counts, or
// where root's process that started it does. For root's own processes, in a container too, the file is enough.
[[nodiscard]] TrustedProgram trusted_program(std::uint32_t pid, const std::string& proc);

}  // namespace headgate::node
