#include "daemon/context.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>

#include "daemon/journal.hpp"
#include "daemon/settings.hpp"

namespace headgate::daemon {

Result<std::unique_ptr<Context>> Context::prepare(const Options& options) {
  config::Config config = TRY(read_configuration(options));
  TRY(is_sound(config, options));
  const auto group = TRY(control_group(config));
  Places places = TRY(find_places(options.socket, options.state, {.group = group, .all = for_all(config)}));
  PlacesHeld held = TRY(hold(places));
  install::Source source = TRY(install::source_for(options.simulate, config["sim.profile"].value));
  if (!options.simulate) source.library = library_of(config);
  // Writers of a simulated node can harm programs that map it: open root's only if all users may ask the daemon.
  if (!source.simulated_directory.empty() && ::geteuid() == 0 && for_all(config))
    TRY(install::let_all_use(source.simulated_directory));
  if (!source.simulated_directory.empty()) ::setenv("HEADGATE_SIM_DIR", source.simulated_directory.c_str(), 1);
  api::Access access{.daemon_uid = ::geteuid(),
                     .admin_gid = {},
                     .token = TRY(token(config)),
                     .streams_per_user = config.number("node.streams_per_user")};
  if (group) access.admin_gid = *group;
  std::unique_ptr<Context> context(
      new Context{options, std::move(config), group, std::move(places), std::move(held), std::move(source)});
  context->access.set(std::move(access));
  context->events.listen([](const snapshot::Event& event) {
    if (const auto level = journal_level(event)) journal(*level, event.text);
  });
  return context;
}

void Context::on_loop(const std::function<void()>& work) {
  if (std::this_thread::get_id() == main_thread) return work();
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
