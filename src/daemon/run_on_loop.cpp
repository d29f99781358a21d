#include "daemon/run_on_loop.hpp"

#include <chrono>
#include <future>
#include <memory>
#include <mutex>

namespace headgate::daemon {

void run_on_loop(http::Loop& loop, const std::atomic<bool>& ending, const std::function<void()>& work) {
  const auto done = std::make_shared<std::promise<void>>();
  const auto given_up = std::make_shared<std::mutex>();
  const auto wanted = std::make_shared<bool>(true);
  auto finished = done->get_future();
  loop.post([&work, done, given_up, wanted] {
    const std::scoped_lock lock(*given_up);
    if (*wanted) work();
    done->set_value();
  });
  while (finished.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (!ending) continue;
    const std::scoped_lock lock(*given_up);
    *wanted = false;
    return;
  }
}

}  // namespace headgate::daemon
