// Runs work of other threads on the loop's.
#pragma once

#include <atomic>
#include <functional>

#include "http/loop.hpp"

namespace headgate::daemon {

// Runs `work` on the loop's thread, and blocks until it is done. If `ending` becomes true, withdraws the work, or waits
// for its end if it has begun. Not from the loop's own thread.
void run_on_loop(http::Loop& loop, const std::atomic<bool>& ending, const std::function<void()>& work);

}  // namespace headgate::daemon
