#include "daemon/housekeeping.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "base/service_notify.hpp"

namespace headgate::daemon {

void Housekeeping::start(std::vector<std::function<void()>> jobs) {
  jobs_ = std::move(jobs);
  tick();
}

void Housekeeping::tick() {
  ++ticks_;
  for (const auto& job : jobs_) job();
  tell_service_manager(ServiceState::alive);
  timer_.start(std::chrono::seconds(1), [this] { tick(); });
}

void Housekeeping::take_standing(api::Service& service, const EventKeeper& history) {
  if (ticks_ % 5 != 1) return;
  api::Standing standing{.ready = service.is_ready(),
                         .events_saved = history.is_saving(),
                         .events_kept = history.store() != nullptr ? history.store()->rows() : context_.events.kept(),
                         .directories = {}};
  for (const auto& [name, path] :
       {std::pair("runtime", context_.places.runtime_dir),
        std::pair("state", std::filesystem::path(context_.places.state_file).parent_path().string())})
    if (const auto room = api::room_of(name, path)) standing.directories.push_back(*room);
  context_.tally.stands(std::move(standing));
}

}  // namespace headgate::daemon
