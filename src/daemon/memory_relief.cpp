#include "daemon/memory_relief.hpp"

#include "daemon/events.hpp"
#include "guest/ledger/oom_wait.hpp"

namespace headgate::daemon {

void MemoryRelief::look(const std::string& name) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  for (const node::MemoryShortage& shortage : pressure_.look(node_.shares(), name, *observer_.latest(), now)) {
    const tenancy::LiveShare* live = node_.shares().find(name);
    if (live == nullptr) return;
    if (shortage.news) events_.add(shortage_event(shortage, live->share));
    if (!live->share.oom_wait) continue;
    scheduler_.scheduler()->tell_of_want(shortage, live->share, *live->share.oom_wait, [this, name] {
      tenancy::LiveShare* still = node_.shares().find(name);
      if (still != nullptr && still->pages != nullptr)
        ledger::deny_waiters(still->pages->policy(), still->pages->usage());
    });
  }
}

void MemoryRelief::look_at_all() {
  for (const auto& [name, live] : node_.shares().list()) look(name);
}

}  // namespace headgate::daemon
