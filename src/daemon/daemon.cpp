#include "daemon/daemon.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>

#include "api/scheduler.hpp"
#include "api/service.hpp"
#include "base/now.hpp"
#include "base/service_notify.hpp"
#include "base/unique_fd.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "config/config.hpp"
#include "daemon/cdi_files.hpp"
#include "daemon/check.hpp"
#include "daemon/event_keeper.hpp"
#include "daemon/events.hpp"
#include "daemon/former_shares.hpp"
#include "daemon/job_writer.hpp"
#include "daemon/journal.hpp"
#include "daemon/metrics_file.hpp"
#include "daemon/mps_control.hpp"
#include "daemon/places.hpp"
#include "daemon/power_control.hpp"
#include "daemon/reload.hpp"
#include "daemon/run_on_loop.hpp"
#include "daemon/settings.hpp"
#include "daemon/zeusd_listener.hpp"
#include "guest/grant/size.hpp"
#include "guest/ledger/oom_wait.hpp"
#include "http/io.hpp"
#include "http/loop.hpp"
#include "http/server.hpp"
#include "identity/peer.hpp"
#include "install/source.hpp"
#include "node/arbitration.hpp"
#include "node/bypass.hpp"
#include "node/enforce.hpp"
#include "node/frozen_processes.hpp"
#include "node/is_frozen.hpp"
#include "node/memory_pressure.hpp"
#include "node/node.hpp"
#include "node/processes.hpp"
#include "node/share_request.hpp"
#include "node/unadmitted.hpp"
#include "observe/driver_silence.hpp"
#include "observe/observer.hpp"
#include "observe/pid_space.hpp"
#include "tenancy/registration_server.hpp"

namespace headgate::daemon {
namespace {

using std::chrono::milliseconds;

// Time for a call into the driver to return at the end: less than the unit's TimeoutStopSec.
constexpr std::chrono::seconds kDriverPatience{5};
constexpr std::chrono::seconds kReleased{60};  // for how long the observer releases the driver

void say(const std::string& text) { journal(JournalLevel::info, text); }
void warn(const std::string& text) { journal(JournalLevel::warning, text); }

// All parts of a running daemon; members in the order in which they start, destroyed in the reverse.
class Daemon {
 public:
  Daemon(config::Config config, Options options, Places places, std::optional<gid_t> group)
      : config_(std::move(config)), options_(std::move(options)), places_(std::move(places)), group_(group) {}

  // After a failed start no thread may wait for a loop that never ran.
  ~Daemon() { ending_ = true; }

  Result<void> start(const install::Source& source) {
    events_.listen([](const snapshot::Event& event) {
      if (const auto level = journal_level(event)) journal(*level, event.text);
    });
    if (auto remembered = open_history(); !remembered) return remembered;
    if (auto opened = open_node(source); !opened) return opened;
    if (auto observing = start_observer(source); !observing) return observing;
    if (auto open = open_channel(); !open) return open;
    mps_ = TRY(MpsControl::start(config_, source, places_, *node_, access_, events_,
                                 [this](auto& uuid, auto pid, auto done) { power_->hold_exclusive(uuid, pid, done); }));
    open_doors();
    cdi_files_->start();  // before readiness is reported
    if (auto serving = start_service(source); !serving) return serving;
    if (auto wish = TRY(MetricsFile::wish_of(config_)))
      metrics_file_.emplace(*wish, *node_, *observer_, events_, tally_);
    if (auto place = TRY(JobWriter::directory_of(config_))) job_writer_.emplace(*place, *observer_);
    watch_signals();
    tick_.emplace(loop_);
    tick();
    return {};
  }

  void run() {
    loop_.run();
    tell_service_manager(ServiceState::stopping);
    ending_ = true;
    if (arbitration_) arbitration_->stop();
    if (observer_ && !observer_->stops_within(kDriverPatience)) {
      // All that the next daemon needs is on disk and in the pages, as after a kill -9.
      warn("a call into the driver hangs: ended without its answer");
      std::_Exit(0);
    }
    if (observer_) observer_->stop();
    if (zeusd_) zeusd_->stop();
    if (power_ && !power_->stops_within(kDriverPatience)) {
      warn("a GPU's setting hangs in the driver: ended without its answer");
      std::_Exit(0);
    }
    if (mps_ && !mps_->stops_within(kDriverPatience)) {
      warn("the MPS tool hangs: ended without its answer");
      std::_Exit(0);
    }
    if (service_) service_->close();
    scheduler_.reset();
    channel_.reset();
    if (server_) server_->stop();
    job_writer_.reset();
    metrics_file_.reset();  // writes what is left; a file system that hangs delays only the end
    say("ended; programs in shares run on under their limits");
  }

 private:
  // Without former events, or a place to keep new ones, the daemon still runs, and reports that.
  Result<void> open_history() {
    const auto age = node::parse_duration("events.keep", config_["events.keep"].value);
    if (!age)
      return fail(ErrorCode::usage, config_["events.keep"].origin + ": " + age.error().message, age.error().hint);
    keeper_.emplace(events_, places_.events_file, tenancy::EventBounds{config_.number("events.rows"), *age});
    keeper_->open();
    return {};
  }

  Result<void> open_node(const install::Source& source) {
    const auto driver = TRY(nvml::Library::open(source.library));
    simulated_ = !source.simulated_directory.empty() || is_simulator(driver.path());
    if (!simulated_)
      if (auto seen = can_see_programs(config_, driver.path()); !seen) return seen;
    const auto snapshot = TRY(observe::read_driver(driver, 0));
    node::NodeOptions node;
    node.runtime_dir = places_.runtime_dir;
    node.state_file = places_.state_file;
    node.gpus = snapshot.gpus;
    node.simulated_dir = source.simulated_directory;
    node.cards = config_.cards();
    node.mps_exclusive = config_["mps.exclusive"].value == "true";
    node.shares_per_user = config_.number("node.shares_per_user");
    node.reserve = reserve_of(config_);
    const bool ran_before = events_.kept() > 0, is_new = !std::filesystem::exists(places_.state_file);
    node_.emplace(TRY(node::Node::open(std::move(node), events_)));
    if (ran_before && is_new) events_.add(store_lost_event(places_.state_file));
    for (const auto& [uuid, text] : unsellable(config_, snapshot.gpus))
      events_.add({.kind = "node.reserve", .severity = "warn", .uuid = uuid, .text = text});
    cdi_files_.emplace(TRY(CdiFiles::directory_of(config_, options_)), source.simulated_directory, snapshot.gpus,
                       node_->shares(), events_,
                       [this](const std::string& share) { return mps_->container_client(share); });
    return start_arbiter(snapshot.gpus);
  }

  Result<void> start_arbiter(const std::vector<snapshot::Gpu>& gpus) {
    std::vector<std::string> uuids;
    for (const auto& gpu : gpus) uuids.push_back(gpu.uuid);
    arbitration_.emplace(std::move(uuids), [this](const std::string& share, ledger::Ring what) {
      loop_.post([this, share, what] {
        if (what == ledger::Ring::memory) trim_idle_pools(share);
        else observer_->read_memory_soon();
        // New clients of MPS: the arbiter's policy follows a snapshot.
        if (what == ledger::Ring::reading && node_->mps_share(share)) observer_->look_soon();
      });
    });
    node_->arbitrate_by(&*arbitration_);
    set_policies();
    return arbitration_->start();
  }

  void set_policies() {
    if (const auto policy = node::parse_policy(config_["arbiter.policy"].value)) node_->set_usual_policy(*policy);
  }

  Result<void> start_observer(const install::Source& source) {
    observe::ObserverSources sources;
    sources.nvml_library = source.library;
    std::array<char, 256> host{};
    sources.node.name = ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
    sources.node.version = version_text();
    sources.node.pid_space = observe::own_pid_space();
    sources.node.simulated = simulated_;
    sources.foreign_pids = !simulated_ && !identity::in_host_pid_namespace("/proc");
    sources.node.reserve_bytes = node_->shares().node().reserve.driver_bytes;
    sources.node.started_unix_ns = unix_now_ns();
    // The node belongs to the loop's thread; the observer calls it there.
    sources.before_reading = [this] { on_loop([&] { node_->before_reading(); }); };
    sources.after_reading = [this](const observe::DriverMemory& memory) {
      on_loop([&] { node_->after_reading(memory); });
    };
    sources.add_ledgers = [this](observe::JoinInput& input) { on_loop([&] { node_->hand_ledgers(input); }); };
    sources.fence_notes = places_.runtime_dir + "/driver-limits";
    if (!sources.foreign_pids)  // those lead to no cgroups
      sources.fence_targets = [this](const observe::JoinInput& input) {
        std::vector<node::RunInShare> runs;
        on_loop([&] { runs = node_->runs(); });
        return node::own_cgroups(input, runs);
      };
    sources.finish = [this](snapshot::Snapshot& snapshot) {
      on_loop([&] { node_->finish(snapshot), cdi_files_->write_into(snapshot); });
      frozen_processes_.write_into(snapshot);
      tally_.look(snapshot);
    };
    observe::AuditRules rules;
    rules.exempt = exempt_programs(config_);
    rules.compute.frozen = [](std::uint32_t pid) { return node::is_frozen(pid); };
    sources.explain = [](std::uint32_t pid) { return node::how_it_goes_around(pid, "/proc"); };
    sources.share_of_ended = [this](std::uint32_t pid) {
      observe::FormerShare share;
      on_loop([&] { share = former_.of(pid); });
      return share;
    };
    audit_policy_ = TRY(node::parse_audit_policy(config_["audit.policy"].value));
    sources.act = [this](const auto& found) { act(audit_policy_, found); };
    observer_.emplace(std::move(sources), std::move(rules), events_);
    return observer_->start();
  }

  Result<void> open_channel() {
    api::Access access{.daemon_uid = ::geteuid(),
                       .admin_gid = {},
                       .token = TRY(token(config_)),
                       .streams_per_user = config_.number("node.streams_per_user")};
    if (group_) access.admin_gid = *group_;
    access_.set(std::move(access));
    patience_ = TRY(node::parse_duration("node.admit_timeout", config_["node.admit_timeout"].value));
    doors_bounds_.answer = patience_;
    channel_.emplace(loop_, channel::ChannelOptions{.limits = api::Scheduler::limits(doors_bounds_),
                                                    .authorise = api::administrators(access_)});
    scheduler_.emplace(*channel_, events_, patience_);
    return {};
  }

  // Handles what allocations of the share lack: asks idle shares to trim their pools, and tells the scheduler.
  void trim_idle_pools(const std::string& name) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    for (const node::MemoryShortage& shortage :
         memory_pressure_.look(node_->shares(), name, *observer_->latest(), now)) {
      const tenancy::LiveShare* live = node_->shares().find(name);
      if (live == nullptr) return;
      if (shortage.news) events_.add(shortage_event(shortage, live->share));
      if (!live->share.oom_wait) continue;
      scheduler_->tell_of_want(shortage, live->share, *live->share.oom_wait, [this, name] {
        tenancy::LiveShare* still = node_->shares().find(name);
        if (still != nullptr && still->pages != nullptr)
          ledger::deny_waiters(still->pages->policy(), still->pages->usage());
      });
    }
  }

  // Replaces doorbells: one process of a share can shut down the bell that all of them hold.
  void mend_bells() {
    for (const std::string& name : arbitration_->doorbell_closed()) {
      auto bell = doors_->new_bell(name, std::chrono::steady_clock::now());
      if (bell && !*bell) continue;
      const auto heard = bell ? node_->hear_anew(name, std::move(*bell)) : std::unexpected(bell.error());
      if (!heard) warn(heard.error().message);
    }
  }

  void tell_of_driver() {
    if (auto event = driver_silence_.look(observer_->driver_silence())) events_.add(std::move(*event));
  }

  void tell_unasked() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    for (const auto& tenant : unadmitted_.look(node_->shares(), *processes_, now, patience_ + std::chrono::seconds(3)))
      events_.add(unasked_event(tenant, owner_of(tenant.share)));
  }

  // Opens the sockets through which limiters register, and watches the pidfds that show their deaths.
  void open_doors() {
    const auto executor = http::context_of(loop_).get_executor();
    auto& shares = node_->shares();
    processes_.emplace(
        executor, shares, "/proc",
        tenancy::Processes::Events{
            .joined =
                [this](const auto& tenant) {
                  former_.remember(tenant.process.pid, {tenant.share, owner_of(tenant.share)});
                  mps_->joined(tenant);
                  if (observer_->can_fence()) observer_->look_soon();
                  if (processes_->count_in(tenant.share) == 1) node_->divide_unattended(tenant.share);
                },
            .left = [this](const auto& tenant) { tell_end(tenant); },
            .admitted = [this](const auto& tenant) { events_.add(joined_event(tenant, owner_of(tenant.share))); }},
        ledger::Remains::draining);
    node_->ask_for_processes(&*processes_);
    doors_.emplace(
        executor, shares, *processes_, "/proc", doors_bounds_,
        tenancy::RegistrationServer::Events{
            .lied = [this](const std::string& share, const identity::Peer& peer,
                           const std::string& what) { events_.add(lie_event(share, peer, what, owner_of(share))); },
            .bell =
                [this](const std::string& share, UniqueFd bell) {
                  const auto added = node_->arbitrate(share, std::move(bell));
                  if (!added) warn(added.error().message + "; tried again");
                  return added.has_value();
                },
            .ask = [this](const auto& share, const auto& tenant,
                          auto decide) { return scheduler_->admit(share, tenant, std::move(decide)); },
            .handed = [this](const std::string& share) { return node_->handed(share); },
            .trouble = [](const std::string& what) { warn(what); }});
    open_shut_doors();
    // Look at all of them while no client waits: processes from before the daemon are known from its first second.
    processes_->adopt(std::numeric_limits<std::size_t>::max());
    node_->watch_shares(
        [this](const std::string& name) {
          if (auto opened = doors_->open(name); !opened) warn(opened.error().message);
          cdi_files_->add(name);
        },
        [this](const std::string& name) {
          doors_->close(name);
          cdi_files_->remove(name);
          processes_->forget(name);
          memory_pressure_.forget(name);
          if (observer_->can_fence()) observer_->look_soon();
          if (scheduler_) scheduler_->forget(name);
        },
        [this](const std::string& name) { doors_->reconsider(name); });
  }

  // Called at the start, and each second for sockets that could not be opened, were removed, or shut by themselves.
  void open_shut_doors() {
    const auto opened = doors_->open_all();
    const std::string trouble = opened ? "" : "programs cannot enter a share: " + opened.error().message;
    if (std::exchange(door_trouble_, trouble) != trouble && !trouble.empty()) warn(trouble);
  }

  // Makes the control socket again if it was removed (by a cleaner of old files, or by mistake): without it no client
  // finds the daemon.
  void keep_control_socket() {
    const auto kept = keep_control_directory(places_, {.group = group_, .all = for_all(config_)});
    const auto bound = kept ? server_->listen_anew() : std::unexpected(kept.error());
    if (bound && *bound > 0) warn("its socket was removed: listens again at " + places_.socket);
    const std::string trouble =
        bound ? "" : "its socket was removed, and no client can reach it: " + bound.error().message;
    if (std::exchange(socket_trouble_, trouble) != trouble && !trouble.empty()) warn(trouble);
  }

  void tell_end(const tenancy::TenantProcess& tenant) {
    if (processes_->count_in(tenant.share) == 0) node_->divide_unattended(tenant.share);
    node_->look_for_refusals(tenant.share);
    observer_->look_soon();  // for what it had, and for others that have ended
    if (service_) service_->process_ended();
    // The share may already have been removed, so use the owner recorded when the process joined.
    const auto former = former_.of(tenant.process.pid);
    if (tenant.admitted)
      events_.add(left_event(tenant, former.name == tenant.share ? former.owner_uid : owner_of(tenant.share)));
  }

  std::optional<std::uint32_t> owner_of(const std::string& share) {
    const tenancy::LiveShare* const live = node_->shares().find(share);
    return live == nullptr ? std::nullopt : std::optional(live->share.owner_uid);
  }

  // Called on the observer's thread.
  void act(node::AuditPolicy policy, const observe::Finding& found) {
    if (policy == node::AuditPolicy::warn) return;
    const bool spared = !found.proven;
    const node::ProcessRef process_ref{found.pid, found.start_time};
    // A client of an MPS server that is killed takes its neighbours along: take it off first.
    const bool taken_off = !spared && policy == node::AuditPolicy::kill && mps_->take_off(found.pid);
    auto done = node::enforce(spared ? node::AuditPolicy::warn : policy, process_ref);
    // Off its server each call of a program fails, and most programs then end.
    if (!done && taken_off && !mps::open_process({found.pid, found.start_time}, "/proc"))
      done = node::EnforcementResult{"was taken off its MPS server, and has ended", {}};
    if (done && done->frozen) frozen_processes_.add(process_ref, *done->frozen);
    events_.add(enforcement_event(found, done));
  }

  // Runs `work` on the loop's thread and waits for it.
  void on_loop(const std::function<void()>& work) {
    if (std::this_thread::get_id() == main_thread_) return work();
    run_on_loop(loop_, ending_, work);
  }

  Result<void> start_service(const install::Source& source) {
    const auto address = TRY(tcp_address(config_, options_, access_.now()->token.has_value()));
    service_.emplace(loop_, *node_, *observer_, events_, keeper_->store(), tally_, access_);
    service_->watch_doors([this] { return doors_->shut(); });
    service_->prepare_entries([this](node::Entry entry, const node::Caller& caller, auto done) {
      mps_->prepare(std::move(entry), caller, std::move(done));
    });
    http::ServerLimits limits = server_limits(config_);
    if (access_.now()->token)
      limits.shows_key = [this](const http::Request& request) { return api::shows_token(request, *access_.now()); };
    if (auto started = start_power(source); !started) return started;
    server_.emplace(loop_, service_->routes(*channel_, &power_->routes(loop_, config_, *service_), &mps_->routes()),
                    std::move(limits));
    server_->tell_trouble([](const std::string& what) { warn(what); });
    if (auto bound = server_->listen(http::UnixListener{
            .path = places_.socket, .mode = mode_t{for_all(config_) ? 0666u : 0660u}, .group = group_});
        !bound)
      return bound;
    std::string where = places_.socket;
    if (address) {
      const std::uint16_t port = TRY(server_->listen(address->host, address->port));
      where += ", http://" + (address->host.contains(':') ? "[" + address->host + "]" : address->host) + ":" +
               std::to_string(port);
    }
    const auto snapshot = observer_->latest();
    const std::size_t shares = node_->shares().list().size();
    const std::string ready = std::to_string(snapshot->gpus.size()) + (snapshot->gpus.size() == 1 ? " GPU" : " GPUs") +
                              (simulated_ ? " (SIMULATED)" : "") + ", " + std::to_string(shares) +
                              (shares == 1 ? " share" : " shares") + "; answers at " + where;
    say(ready);
    tell_service_manager(ServiceState::ready, ready);
    return {};
  }

  Result<void> start_power(const install::Source& source) {
    power_ = TRY(PowerControl::start(config_, source, places_.leases_file, *node_, access_, events_));
    service_->watch_release([this](const std::string& uuid) { power_->release_driver(uuid, kReleased); });
    if (!ZeusdListener::is_wanted(config_, options_)) return {};
    zeusd_ = TRY(ZeusdListener::start(loop_, config_, options_, *power_));
    say("the API of zeusd answers at " + zeusd_->where());
    return {};
  }

  void watch_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal);
    signals_ = UniqueFd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    signal_watch_.emplace(loop_, signals_.get(), [this] {
      signalfd_siginfo info{};
      while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP) reload();
        else {
          say(std::string("ends: SIG") + ::sigabbrev_np(static_cast<int>(info.ssi_signo)));
          loop_.stop();
        }
      }
    });
  }

  void reload() {
    tell_service_manager(ServiceState::reloading);
    const auto taken = take_configuration();
    std::string outcome = taken ? describe(*taken) : "the old configuration stays: " + taken.error().message;
    journal(!taken                   ? JournalLevel::error
            : taken->waiting.empty() ? JournalLevel::info
                                     : JournalLevel::warning,
            outcome + (taken || taken.error().hint.empty() ? "" : " (" + taken.error().hint + ")"));
    // Details of the node's files are for its administrators only.
    if (!taken) {
      std::string mistake = taken.error().message;
      std::ranges::replace(mistake, '\n', ' ');
      events_.add({.kind = "config.refused",
                   .severity = "error",
                   .owner_uid = ::geteuid(),
                   .text = "the configuration has a mistake, so the old one stays: " + mistake});
    } else events_.add({.kind = "config.read", .severity = taken->waiting.empty() ? "info" : "warn", .text = outcome});
    tell_service_manager(ServiceState::ready, outcome);
  }

  // Takes over all of it, or nothing.
  Result<Changes> take_configuration() {
    const config::Config fresh = TRY(read_configuration(options_));
    api::Access access = *access_.now();
    const auto former_token = std::exchange(access.token, TRY(token(fresh)));
    const bool other_token = access.token != former_token;
    access.streams_per_user = fresh.number("node.streams_per_user");
    // Check now what only a start reads, so that the next start does not fail by it.
    if (auto sound = is_sound(fresh, options_); !sound) return std::unexpected(sound.error());
    // Check the address it listens at now, which may differ from the next start's.
    TRY(tcp_address(config_, options_, access.token.has_value()));
    const auto policy = TRY(node::parse_audit_policy(fresh["audit.policy"].value));

    Changes changed = changes(config_, fresh, options_);
    // The same file may hold another token.
    if (other_token && std::ranges::find(changed.applied, "node.token_file") == changed.applied.end())
      changed.applied.emplace_back("node.token_file");
    const std::string former = config_["arbiter.policy"].value;
    config_ = applied_to(std::move(config_), fresh, changed);
    if (config_["arbiter.policy"].value != former) set_policies();
    audit_policy_ = policy;
    observer_->set_exempt(exempt_programs(config_));
    if (auto allowed = power_->allow(config_); !allowed) warn(allowed.error().message);
    node_->allow_shares_per_user(config_.number("node.shares_per_user"));
    access_.set(std::move(access));
    if (other_token) server_->hang_up_tcp();
    return changed;
  }

  // Updates what metrics say of the daemon; every few seconds, as it tries the store with a write.
  void tell_standing() {
    if (++ticks_ % 5 != 1) return;
    api::Standing standing{.ready = service_->is_ready(),
                           .events_saved = keeper_->is_saving(),
                           .events_kept = keeper_->store() != nullptr ? keeper_->store()->rows() : events_.kept()};
    for (const auto& [name, path] :
         {std::pair("runtime", places_.runtime_dir),
          std::pair("state", std::filesystem::path(places_.state_file).parent_path().string())})
      if (const auto room = api::room_of(name, path)) standing.directories.push_back(*room);
    tally_.stands(std::move(standing));
  }

  void tick() {
    if (auto* const store = keeper_->retry(std::chrono::steady_clock::now())) service_->keep_history(store);
    open_shut_doors(), keep_control_socket();
    cdi_files_->keep();
    processes_->adopt();
    arbitration_->wake();
    // For rings that do not come: a tenant may have closed the bell, or have another version of it.
    for (const auto& [name, live] : node_->shares().list()) trim_idle_pools(name);
    tell_unasked(), tell_of_driver(), mend_bells();
    node_->keep_time(*observer_->latest(), lease_now_s());
    tally_.connected(server_->connections()), tally_.serves_mps(mps_->figures()), tell_standing();
    power_->tick();
    tell_service_manager(ServiceState::alive);  // each second, from the loop, which must not hang
    tick_->start(std::chrono::seconds(1), [this] { tick(); });
  }

  config::Config config_;
  const Options options_;
  const Places places_;
  const std::optional<gid_t> group_;  // of the control socket
  const std::thread::id main_thread_ = std::this_thread::get_id();
  bool simulated_ = false;
  std::atomic<bool> ending_ = false;
  node::FrozenProcesses frozen_processes_;  // used only during a look, by act() and ObserverSources::finish
  std::atomic<node::AuditPolicy> audit_policy_ = node::AuditPolicy::warn;
  observe::EventLog events_;
  std::optional<EventKeeper> keeper_;
  api::CurrentAccess access_;
  api::Tally tally_;
  FormerShares former_;
  http::Loop loop_;
  std::optional<node::Arbitration> arbitration_;
  std::optional<node::Node> node_;
  std::optional<CdiFiles> cdi_files_;
  std::optional<tenancy::Processes> processes_;
  std::optional<tenancy::RegistrationServer> doors_;
  tenancy::ConnectionBounds doors_bounds_;
  std::string door_trouble_, socket_trouble_;  // last reported
  std::optional<observe::Observer> observer_;
  std::chrono::seconds patience_{30};  // for a scheduler's answer
  std::optional<channel::Channel> channel_;
  std::optional<api::Scheduler> scheduler_;
  node::MemoryPressure memory_pressure_;
  node::Unadmitted unadmitted_;
  observe::DriverSilence driver_silence_;
  std::optional<MetricsFile> metrics_file_;
  std::optional<JobWriter> job_writer_;
  std::optional<api::Service> service_;
  std::optional<http::Server> server_;
  std::unique_ptr<PowerControl> power_;
  std::unique_ptr<MpsControl> mps_;
  std::unique_ptr<ZeusdListener> zeusd_;  // nullptr: not asked for
  std::uint64_t ticks_ = 0;
  UniqueFd signals_;
  std::optional<http::Watch> signal_watch_;
  std::optional<http::Timer> tick_;
};

}  // namespace

Result<void> run(const Options& options) {
  // All threads inherit this: only the loop gets signals.
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  take_all_descriptors();
  say("version " + version_text());
  const config::Config config = TRY(read_configuration(options));
  if (auto sound = is_sound(config, options); !sound) return sound;
  const auto group = TRY(control_group(config));
  const Places places = TRY(find_places(options.socket, options.state, {.group = group, .all = for_all(config)}));
  const PlacesHeld held = TRY(hold(places));
  install::Source source = TRY(install::source_for(options.simulate, config["sim.profile"].value));
  if (!options.simulate) source.library = library_of(config);
  // Writers of a simulated node can harm programs that map it: open root's only if all users may ask the daemon.
  if (!source.simulated_directory.empty() && ::geteuid() == 0 && for_all(config))
    if (auto opened = install::let_all_use(source.simulated_directory); !opened) return opened;
  if (!source.simulated_directory.empty()) ::setenv("HEADGATE_SIM_DIR", source.simulated_directory.c_str(), 1);
  Daemon daemon(config, options, places, group);
  if (auto started = daemon.start(source); !started) return started;
  daemon.run();
  return {};
}

}  // namespace headgate::daemon
