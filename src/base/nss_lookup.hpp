// Runs NSS lookups of users and groups on a separate thread, so that callers can limit their wait: NSS may ask a
// network server that is slow or silent.
#pragma once

#include <chrono>
#include <functional>

namespace headgate {

// Runs `question` on that thread after earlier ones and waits for it; returns true if it finished. The wait is limited
// to `patience` from when the thread started its current question, so callers behind a slow one do not each wait as
// long. On false the question still runs later, unless a thousand are queued, so it must own its data. Thread-safe.
[[nodiscard]] bool nss_lookup(std::function<void()> question, std::chrono::milliseconds patience);

}  // namespace headgate
