// headgated: the node's daemon. This file shows the order in which its parts start, and the order in which they end.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/now.hpp"
#include "base/service_notify.hpp"
#include "base/standard_streams.hpp"
#include "base/version.hpp"
#include "daemon/cdi_files.hpp"
#include "daemon/collector_files.hpp"
#include "daemon/context.hpp"
#include "daemon/control_listener.hpp"
#include "daemon/event_keeper.hpp"
#include "daemon/journal.hpp"
#include "daemon/mps_control.hpp"
#include "daemon/node_host.hpp"
#include "daemon/node_observer.hpp"
#include "daemon/options.hpp"
#include "daemon/places.hpp"
#include "daemon/power_control.hpp"
#include "daemon/reload.hpp"
#include "daemon/scheduler_channel.hpp"
#include "daemon/settings.hpp"
#include "daemon/share_listeners.hpp"
#include "daemon/signals.hpp"
#include "daemon/zeusd_listener.hpp"
#include "daemon/zeusd_program.hpp"

namespace {

using namespace headgate;
using namespace headgate::daemon;

// Time for a call into the driver to return at the end: less than the unit's TimeoutStopSec.
constexpr std::chrono::seconds kDriverPatience{5};
constexpr std::chrono::seconds kReleased{60};  // for how long the driver is released on request

// The parts of a running daemon; destroyed in the reverse order.
struct Parts {
  explicit Parts(std::unique_ptr<Context> with) : context(std::move(with)) {}
  // After a failed start no thread may wait for a loop that never ran.
  ~Parts() { context->ending = true; }

  std::unique_ptr<Context> context;
  std::unique_ptr<EventKeeper> history;
  std::unique_ptr<NodeHost> node;
  std::optional<CdiFiles> cdi;
  std::optional<ShareListeners> listeners;
  std::optional<NodeObserver> observer;
  SchedulerChannel scheduler;
  std::optional<MemoryRelief> relief;
  std::optional<PeriodicWriter> metrics_writer, jobs_writer;
  std::optional<api::Service> service;
  std::optional<ControlListener> control;
  std::unique_ptr<PowerControl> power;
  std::unique_ptr<MpsControl> mps;
  std::unique_ptr<ZeusdListener> zeusd;  // null: not asked for
  std::optional<Signals> signals;
  std::optional<http::Timer> each_second;
  std::uint64_t seconds = 0;
};

// Opens the node on the driver's GPUs. The arbiter decides from here on.
Result<void> start_node(Parts& on) {
  on.node = TRY(NodeHost::open(*on.context));
  node::Node& node = on.node->node();
  on.cdi.emplace(TRY(CdiFiles::directory_of(on.context->config, on.context->options)),
                 on.context->source.simulated_directory, node.managed.options.gpus, node.shares(), on.context->events,
                 [&on](const std::string& share) { return on.mps->container_client(share); });
  return on.node->arbitrate([&on](const std::string& share, ledger::Ring what) {
    if (what == ledger::Ring::memory) on.relief->look(share);
    else on.observer->observer().read_memory_soon();
    // New clients of MPS: the arbiter's policy follows a snapshot.
    if (what == ledger::Ring::reading && on.node->node().access.mps_share(share)) on.observer->observer().look_soon();
  });
}

// Takes the first snapshot.
Result<void> start_observer(Parts& on) {
  on.observer.emplace(*on.context, *on.node, *on.cdi,
                      [&on](std::uint32_t pid) { return on.mps ? on.mps->take_off(pid) : Result<bool>(false); });
  TRY(on.observer->start());
  on.relief.emplace(on.context->events, on.node->node(), on.observer->observer(), on.scheduler);
  return {};
}

Result<void> start_mps(Parts& on) {
  on.mps = TRY(MpsControl::start(*on.context, on.node->node(), [&on](auto& uuid, auto pid, auto done) {
    on.power->hold_exclusive(uuid, pid, std::move(done));
  }));
  return {};
}

// Opens the sockets through which limiters register, of all shares and of those that come.
void open_shares(Parts& on) {
  on.listeners.emplace(*on.context, *on.node, on.scheduler,
                       ShareListeners::Hooks{
                           .joined =
                               [&on](const auto& tenant) {
                                 on.mps->joined(tenant);
                                 if (on.observer->observer().can_fence()) on.observer->observer().look_soon();
                               },
                           .left =
                               [&on](const auto&) {
                                 // The next snapshot shows what it no longer uses, and which others have ended.
                                 on.observer->observer().look_soon();
                                 if (on.service) on.service->process_ended();
                               },
                       });
  on.listeners->open();
  on.node->node().managed.watch({.made =
                                     [&on](const std::string& name) {
                                       on.listeners->add(name);
                                       on.cdi->add(name);
                                     },
                                 .gone =
                                     [&on](const std::string& name) {
                                       on.listeners->remove(name);
                                       on.cdi->remove(name);
                                       on.relief->forget(name);
                                       if (on.observer->observer().can_fence()) on.observer->observer().look_soon();
                                       if (auto* const scheduler = on.scheduler.scheduler()) scheduler->forget(name);
                                     },
                                 .changed = [&on](const std::string& name) { on.listeners->reconsider(name); }});
  on.cdi->start();
}

Result<void> start_service(Parts& on) {
  Context& context = *on.context;
  on.service.emplace(context.loop, on.node->node(), on.observer->observer(), context.events, on.history->store(),
                     context.tally, context.access);
  on.service->watch_doors([&on] { return on.listeners->shut(); });
  on.service->prepare_entries([&on](node::Entry entry, const node::Caller& caller, auto done) {
    on.mps->prepare(std::move(entry), caller, std::move(done));
  });
  on.power = TRY(PowerControl::start(context, on.node->node()));
  on.service->watch_release([&on](const std::string& uuid) { on.power->release_driver(uuid, kReleased); });
  on.zeusd = TRY(ZeusdListener::start(context, *on.power));
  http::Router router;
  on.scheduler.channel().add_routes(router);
  on.power->add_routes(router, *on.service);
  on.mps->add_routes(router);
  TRY(on.service->add_routes(router));
  on.control.emplace(context, std::move(router));
  return on.control->listen();
}

void report_ready(Parts& on) {
  const std::size_t gpus = on.observer->observer().latest()->gpus.size();
  const std::size_t shares = on.node->node().shares().list().size();
  const std::string ready = std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") +
                            (on.node->is_simulated() ? " (SIMULATED)" : "") + ", " + std::to_string(shares) +
                            (shares == 1 ? " share" : " shares") + "; answers at " + on.control->where();
  note(ready);
  tell_service_manager(ServiceState::ready, ready);
}

Result<void> start_files(Parts& on) {
  const Context& context = *on.context;
  const observe::Observer& observer = on.observer->observer();
  const CollectorFiles files = TRY(collector_files_of(context.config));
  if (!files.metrics_file.empty())
    on.metrics_writer.emplace("metrics.file", files.interval,
                              metrics_writer(files, on.node->node(), observer, context.events, context.tally));
  if (!files.job_directory.empty())
    on.jobs_writer.emplace("metrics.job_directory", std::chrono::seconds(1),
                           jobs_writer(files.job_directory, observer));
  return {};
}

// Takes over what metrics say of the daemon.
void take_standing(Parts& on) {
  const Context& context = *on.context;
  const tenancy::EventStore* const store = on.history->store();
  api::Standing standing{.ready = on.service->is_ready(),
                         .events_saved = on.history->is_saving(),
                         .events_kept = store != nullptr ? store->rows() : context.events.kept(),
                         .directories = {}};
  const auto state = std::filesystem::path(context.places.state_file).parent_path().string();
  for (const auto& [name, path] : {std::pair("runtime", context.places.runtime_dir), std::pair("state", state)})
    if (const auto room = api::room_of(name, path)) standing.directories.push_back(*room);
  on.context->tally.set(&api::Tally::Sums::standing, std::move(standing));
}

void do_each_second(Parts& on) {
  api::Tally& tally = on.context->tally;
  if (auto* const store = on.history->retry(std::chrono::steady_clock::now())) on.service->keep_history(store);
  on.listeners->open_shut();
  on.control->keep_socket();
  on.cdi->keep();
  on.listeners->adopt();
  on.node->arbitration().wake();
  on.relief->look_at_all();
  on.listeners->tell_unadmitted();
  on.observer->tell_silence();
  on.listeners->replace_bells();
  on.node->node().keep_time(*on.observer->observer().latest(), lease_now_s());
  tally.set(&api::Tally::Sums::clients, on.control->connections());
  tally.set(&api::Tally::Sums::mps, on.mps->groups());
  on.mps->keep_modes();
  if (on.seconds++ % 5 == 0) take_standing(on);  // tries the store with a write
  on.power->tick();
  tell_service_manager(ServiceState::alive);  // the loop does not hang
  on.each_second->start(std::chrono::seconds(1), [&on] { do_each_second(on); });
}

void start_housekeeping(Parts& on) {
  on.signals.emplace(on.context->loop,
                     [&on] { reload_configuration(*on.context, *on.node, *on.observer, *on.power, *on.control); });
  on.each_second.emplace(on.context->loop);
  do_each_second(on);
}

// All that the next daemon needs is on disk and in the pages, as after a kill -9.
void leave_unless(bool ended, const char* what) {
  if (ended) return;
  warn(std::string(what) + ": ended without its answer");
  std::_Exit(0);
}

void end(Parts& on) {
  tell_service_manager(ServiceState::stopping);
  on.context->ending = true;
  on.node->arbitration().stop();
  leave_unless(on.observer->observer().stops_within(kDriverPatience), "a call into the driver hangs");
  on.observer->observer().stop();
  if (on.zeusd) on.zeusd->stop();
  leave_unless(on.power->stops_within(kDriverPatience), "a GPU's setting hangs in the driver");
  leave_unless(on.mps->stops_within(kDriverPatience), "the MPS tool hangs");
  on.service->close();
  on.scheduler.close();
  on.control->stop();
  on.jobs_writer.reset();
  on.metrics_writer.reset();  // writes what is left; a file system that hangs delays only the end
  note("ended; programs in shares run on under their limits");
}

// Runs until SIGTERM or SIGINT. Errors: a part cannot start; each error names file, value and what is accepted.
Result<void> run(const Options& options) {
  Signals::block();  // before the first thread, so that only the loop gets signals
  take_all_descriptors();
  note("version " + version_text());
  Parts on(TRY(Context::prepare(options)));           // configuration, directories, driver or simulator
  on.history = TRY(EventKeeper::start(*on.context));  // before the first event
  TRY(start_node(on));                                // shares are adopted
  TRY(start_observer(on));                            // snapshots
  TRY(on.scheduler.open(*on.context));                // before a share's socket can ask it
  TRY(start_mps(on));                                 // before a program joins
  open_shares(on);                                    // programs can enter
  TRY(start_service(on));                             // clients are answered
  report_ready(on);
  TRY(start_files(on));  // for collectors that follow files
  start_housekeeping(on);
  on.context->loop.run();
  end(on);
  return {};
}

// Prints an error and returns its exit status. A message may have several lines: each mistake, then indented what is
// accepted.
int complain(const Error& error) {
  constexpr std::string_view kOurs = "headgated: ";
  for (std::string_view rest = error.message; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.starts_with(kOurs)) line.remove_prefix(kOurs.size());
    if (line.starts_with(' ')) std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    else journal(JournalLevel::error, line);
  }
  if (!error.hint.empty()) std::fprintf(stderr, "  %s\n", error.hint.c_str());
  return exit_status(error.code);
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  // `headgate zeusd` executes headgated with this argument, because the server is part of headgated.
  if (argc > 1 && std::string_view(argv[1]) == "zeusd") return zeusd_main(argc - 2, argv + 2);
  const auto options = parse(argc, argv);
  if (!options) return complain(options.error());
  if (options->help) return std::fputs(usage_text(), stdout), 0;
  if (options->version) return std::puts(("headgated " + version_text()).c_str()), 0;
  if (options->check) {
    if (const auto checked = check(*options); !checked) return complain(checked.error());
    return std::puts("headgated would start with this configuration"), 0;
  }
  const auto ended = run(*options);
  return ended ? 0 : complain(ended.error());
}
