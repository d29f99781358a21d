// Questions to the system's directory of users and groups (NSS: files, or a server on the network, which may take its
// time or not answer at all), asked on a thread of their own, so that nobody waits longer for a name than he can afford
// to.
#pragma once

#include <chrono>
#include <functional>

namespace headgate {

// Runs `question` on that thread, after those before it, and waits for its end: true. It waits for `patience` at most,
// counted from when the thread took up the question that it is at: whoever comes while a slow one is asked does not
// wait as long again. False then, and the question is asked later all the same, unless a thousand wait already; so it
// must own what it works on. Thread-safe.
[[nodiscard]] bool nss_lookup(std::function<void()> question, std::chrono::milliseconds patience);

}  // namespace headgate
