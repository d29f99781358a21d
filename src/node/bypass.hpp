// Why nothing holds a process that uses a GPU: what of it can be seen from outside, for a person to read.
#pragma once

#include <cstdint>
#include <string>

namespace headgate::node {

// "it is statically linked", "the limiter is not loaded; its driver library is /tmp/x.so; it has a mount namespace of its own".
// Empty where nothing is to be seen. `proc`: where /proc lies. Reads what belongs to the process: nothing of it is believed but shown,
// and what it may cost is bounded (two seconds of processor time; by files, bytes and symbols far less). It may block all the same.
[[nodiscard]] std::string how_it_goes_around(std::uint32_t pid, const std::string& proc);

// The name of the program's file, where root owns it and it lies where this process sees it too: then no user can have given the
// name to a program of his own. Else empty.
[[nodiscard]] std::string trusted_program(std::uint32_t pid, const std::string& proc);

}  // namespace headgate::node
