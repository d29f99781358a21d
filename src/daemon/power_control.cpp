#include "daemon/power_control.hpp"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/now.hpp"
#include "base/user_name.hpp"
#include "base/whole_number.hpp"
#include "config/command_overrides.hpp"
#include "daemon/journal.hpp"
#include "daemon/zeusd_log.hpp"
#include "identity/process.hpp"
#include "install/paths.hpp"
#include "power/nvml_manager.hpp"
#include "power/overriding_manager.hpp"
#include "power/permission.hpp"
#include "power/resolve.hpp"
#include "power/write_audit.hpp"

namespace headgate::daemon {
namespace {

constexpr std::uint32_t kOverflowUid = 65'534;  // the kernel's uid for a user without a number here

std::optional<power::Bounds> bounds_of(const std::optional<config::Range>& range) {
  if (!range) return std::nullopt;
  return power::Bounds{range->least, range->most};
}

Result<power::Grant> grant_of(const config::PowerGrant& from) {
  power::Grant grant;
  const auto unknown = [&from](const char* what, const std::string& name) {
    return fail(ErrorCode::usage, from.origin + ": power.grant: '" + name + "' is no " + what + " of this machine",
                std::string("accepted: a ") + what + "'s name or number");
  };
  for (const std::string& name : from.users) {
    grant.users.push_back(name);
    if (const auto uid = whole_number<std::uint32_t>(name)) grant.uids.push_back(*uid);
    else if (const passwd* entry = ::getpwnam(name.c_str())) grant.uids.push_back(entry->pw_uid);
    else return unknown("user", name);
  }
  for (const std::string& name : from.groups) {
    if (const auto gid = whole_number<std::uint32_t>(name)) grant.gids.push_back(*gid);
    else if (const ::group* entry = ::getgrnam(name.c_str())) grant.gids.push_back(entry->gr_gid);
    else return unknown("group", name);
  }
  grant.gpus = from.gpus;
  grant.milliwatts = bounds_of(from.milliwatts);
  grant.mhz = bounds_of(from.mhz);
  grant.memory_mhz = bounds_of(from.memory_mhz);
  grant.persistence = from.persistence;
  return grant;
}

Result<std::vector<power::Grant>> grants_of(const config::Config& config) {
  std::vector<power::Grant> grants;
  for (const config::PowerGrant& one : config.power_grants) grants.push_back(TRY(grant_of(one)));
  return grants;
}

Result<config::CommandOverrides> overrides_of(const config::Config& config) {
  const std::string& path = config["zeusd.command_overrides"].value;
  if (path.empty()) return config::CommandOverrides{};
  return TRY(config::load_command_overrides(path)).overrides;
}

// Returns the profile of power.at_start; empty: none is named.
Result<std::optional<config::PowerProfile>> site_of(const config::Config& config) {
  const config::Setting& named = config["power.at_start"];
  if (named.value.empty()) return std::optional<config::PowerProfile>{};
  const auto found = std::ranges::find(config.power_profiles, named.value, &config::PowerProfile::name);
  if (found != config.power_profiles.end()) return std::optional(*found);
  return fail(ErrorCode::usage, named.origin + ": power.at_start = '" + named.value + "' names no profile",
              "write [power.profile." + named.value + "], or name one that is there");
}

// Root of a container has uid 0 too. A socket that is mounted there must not make it an administrator.
bool is_root_of_the_host(const http::Peer& peer) {
  if (peer.uid != 0 || peer.pid <= 0) return false;
  std::error_code theirs, ours;
  namespace fs = std::filesystem;
  const auto of_peer = fs::read_symlink("/proc/" + std::to_string(peer.pid) + "/ns/pid", theirs);
  const auto of_us = fs::read_symlink("/proc/self/ns/pid", ours);
  return !theirs && !ours && of_peer == of_us;
}

void say(JournalLevel level, const std::string& text) { journal(level, "power: " + text); }

}  // namespace

struct PowerControl::Impl {
  Impl(node::Node& n, const api::CurrentAccess& a, observe::EventLog& e) : node(n), access(a), events(e) {}

  power::Writer writer_of(const api::ZeusdCaller& caller) const {
    power::Writer writer;
    writer.user = caller.user.value_or("");
    if (!caller.peer.is_unix) {
      // Only a process that can read the signing key can sign a token for root.
      writer.administrator = writer.user == "root";
      return writer;
    }
    const auto now = access.now();
    // Root of a container owns nothing that root of the host owns.
    if (caller.peer.uid == 0 && !is_root_of_the_host(caller.peer)) {
      writer.uid = kOverflowUid;
      return writer;
    }
    writer.uid = caller.peer.user.value_or(caller.peer.uid);
    writer.gids.assign(caller.peer.groups.begin(), caller.peer.groups.end());
    writer.gids.push_back(caller.peer.gid);
    writer.administrator = caller.peer.uid == 0 || caller.peer.uid == now->daemon_uid ||
                           (now->admin_gid && caller.peer.in_group(*now->admin_gid));
    return writer;
  }

  // `with_names`: adds the owners' names, which may block on a directory service.
  power::GpuUse use_of(std::uint32_t gpu, bool with_names) const {
    power::GpuUse use{.index = gpu, .uuid = queues->gpu(gpu).identity().uuid, .owners = {}};
    for (const auto& [name, live] : node.shares().list()) {
      const auto& devices = live.share.devices;
      if (std::ranges::find(devices, use.uuid, &tenancy::DeviceShare::uuid) == devices.end()) continue;
      const std::uint32_t uid = live.share.owner_uid;
      use.owners.push_back({uid, with_names ? user_name(uid) : ""});
    }
    return use;
  }

  // Checks that no other user's lease has that control.
  Result<void> is_free(std::uint32_t gpu, const power::Command& command, std::optional<std::uint32_t> uid) const {
    const auto lease = leases->holder_of(queues->gpu(gpu).identity().uuid, command);
    if (!lease || uid == lease->owner_uid) return {};
    return fail(ErrorCode::denied, "GPU " + std::to_string(gpu) + ": this setting is held by " + describe(*lease),
                "wait for its end; an administrator can end it: headgate power end " + lease->id);
  }

  Result<void> may_write(const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& gpus,
                         const power::Command& command) const {
    const power::Writer writer = writer_of(caller);
    for (const std::uint32_t gpu : gpus) {
      const power::GpuUse use = use_of(gpu, !writer.uid);
      if (auto may = power::may_write(writer, use, command, grants); !may) return may;
      if (auto free = is_free(gpu, command, writer.uid); !free) return free;
    }
    return {};
  }

  // Checks that the caller may wait for the end of that process.
  static Result<void> may_hold(const node::Caller& caller, std::uint32_t pid) {
    const auto holder = TRY(identity::read_process("/proc", pid));
    if (caller.administrator || holder.uid == caller.uid) return {};
    return fail(ErrorCode::denied, "process " + std::to_string(pid) + " is not yours",
                "name one of your own processes, or a ttl_s");
  }

  // Checks each of the settings on each of the GPUs.
  Result<void> may_set(const http::Peer& peer, const node::Caller& caller, const power::SettingsByGpu& settings,
                       bool by_lease) const {
    const power::Writer writer = writer_of({.peer = peer, .user = {}});
    for (std::uint32_t gpu = 0; gpu < queues->count(); ++gpu) {
      const auto found = settings.find(queues->gpu(gpu).identity().uuid);
      if (found == settings.end()) continue;
      for (const power::Command& command : power::commands_to_apply(found->second)) {
        if (!caller.administrator)
          if (auto may = power::may_write(writer, use_of(gpu, false), command, grants); !may) return may;
        if (by_lease) continue;
        if (auto free = is_free(gpu, command, caller.uid); !free) return free;
      }
    }
    return {};
  }

  bool reads_live(const api::ZeusdCaller& caller, std::optional<std::uint32_t> gpu) const {
    const power::Writer writer = writer_of(caller);
    return writer.administrator || (gpu && power::owns_all(writer, use_of(*gpu, !writer.uid)));
  }

  // Called on the keeper's thread.
  void tell(const power::LeaseNews& news) const {
    say(news.trouble ? JournalLevel::warning : JournalLevel::info, news.text);
    events.add(
        {.kind = "power.lease", .severity = news.trouble ? "warn" : "info", .uid = news.owner_uid, .text = news.text});
  }

  // Puts a damaged file of leases aside. Errors: `why`, if something else keeps it from being read.
  Result<void> put_aside(const std::string& file, const Error& why) const {
    const std::string aside = file + ".damaged";
    if (why.code != ErrorCode::failed || std::rename(file.c_str(), aside.c_str()) != 0) return std::unexpected(why);
    const std::string text = "the leases of a former daemon cannot be read (" + why.message +
                             "): what they changed stays; the file is kept as " + aside;
    say(JournalLevel::error, text);
    events.add({.kind = "power.leases_damaged", .severity = "error", .text = text});
    return {};
  }

  // Any thread.
  void tell_site(const Result<void>& done) const {
    const std::string text = done ? "the site's own settings (power.at_start) are made" : done.error().message;
    say(done ? JournalLevel::info : JournalLevel::warning, text);
    events.add({.kind = "power.site", .severity = done ? "info" : "warn", .text = text});
  }

  // Called on the workers' threads.
  void executed(const power::Executed& done) {
    if (!done.caller.quiet || power::is_write(done.command.operation)) log_executed("headgated", done);
    std::optional<power::AuditEntry> entry;
    {
      const std::lock_guard lock(audit_mutex);
      entry = audit.look(done, steady_now_ns());
    }
    if (entry) tell(*entry);
    warn_if_forgotten(done);
  }

  // Without persistence mode the driver unloads with its last client and forgets the setting. Warns once for each GPU,
  // until the mode is on.
  void warn_if_forgotten(const power::Executed& done) {
    if (!done.result || !power::is_write(done.command.operation)) return;
    const auto mode = queues->gpu(done.gpu).read(power::Operation::get_persistence_mode);
    const bool forgets = mode && *mode == 0 && done.command.operation != power::Operation::set_persistence_mode;
    const std::lock_guard lock(audit_mutex);
    if (forgets == forgetful.contains(done.gpu)) return;
    if (!forgets) {
      if (mode && *mode != 0) forgetful.erase(done.gpu);
      return;
    }
    forgetful.insert(done.gpu);
    const power::GpuIdentity& gpu = queues->gpu(done.gpu).identity();
    events.add({.kind = "power.forgotten",
                .severity = "warn",
                .uuid = gpu.uuid,
                .text = "GPU " + std::to_string(done.gpu) + " (" + gpu.name +
                        ") has no persistence mode: the driver forgets its settings when its last program ends"});
  }

  void tell(const power::AuditEntry& entry) {
    const power::GpuIdentity& gpu = queues->gpu(entry.gpu).identity();
    events.add({.kind = entry.failed ? "power.failed" : "power.set",
                .severity = entry.failed ? "warn" : "info",
                .uuid = gpu.uuid,
                .uid = entry.caller.uid.value_or(~0u),
                .text = "GPU " + std::to_string(entry.gpu) + " (" + gpu.name + ") " + entry.text + ", by " +
                        entry.caller.text});
  }

  node::Node& node;
  const api::CurrentAccess& access;
  observe::EventLog& events;
  std::vector<power::Grant> grants;
  std::vector<power::Profile> profiles;
  std::mutex audit_mutex;
  power::WriteAudit audit;
  std::set<std::uint32_t> forgetful;           // under audit_mutex
  std::shared_ptr<power::NvmlSession> driver;  // shared with the managers of its GPUs
  std::optional<power::ControlQueues> queues;
  std::optional<power::LeaseKeeper> leases;
  std::optional<api::PowerRoutes> routes;
};

// On a simulated node the tool finds the simulated driver.
Result<power::TimeSliceTool> time_slice_tool(const config::Config& config, const install::Source& source) {
  power::TimeSliceTool::Options options;
  if (const std::string& named = config["power.nvidia_smi"].value; !named.empty()) options.program = named;
  if (!source.simulated_directory.empty())
    options.environment = {"LD_LIBRARY_PATH=" + TRY(install::simulator_libraries()),
                           "HEADGATE_SIM_DIR=" + source.simulated_directory};
  return power::TimeSliceTool(std::move(options));
}

Result<void> PowerControl::check(const config::Config& config) {
  TRY(site_of(config));
  TRY(grants_of(config));
  TRY(overrides_of(config));
  return {};
}

Result<std::unique_ptr<PowerControl>> PowerControl::start(const config::Config& config, const install::Source& source,
                                                          const std::string& lease_file, node::Node& node,
                                                          const api::CurrentAccess& access, observe::EventLog& events) {
  auto impl = std::make_unique<Impl>(node, access, events);
  Impl& on = *impl;
  on.grants = TRY(grants_of(config));
  on.profiles = config.power_profiles;
  on.driver = TRY(power::NvmlSession::open(source.library));
  auto gpus = power::NvmlSession::managers(on.driver, TRY(time_slice_tool(config, source)));
  const auto overrides = TRY(overrides_of(config));
  for (std::uint32_t gpu = 0; gpu < gpus.size(); ++gpu)
    gpus[gpu] = power::overriding_manager(std::move(gpus[gpu]), gpu, overrides);
  on.queues.emplace(std::move(gpus), [&on](const power::Executed& done) { on.executed(done); });
  power::LeaseKeeper::Options options;
  options.file = lease_file;
  options.now_s = lease_now_s;
  options.tell = [&on](const power::LeaseNews& news) { on.tell(news); };
  options.reapply = config["power.drift"].value == "reapply";
  on.leases.emplace(*on.queues, std::move(options));
  if (auto started = on.leases->start(); !started) {
    // The node is metered even if it is unknown what former leases had changed.
    if (auto aside = on.put_aside(lease_file, started.error()); !aside) return std::unexpected(aside.error());
    if (auto again = on.leases->start(); !again) return std::unexpected(again.error());
  }
  if (const auto site = TRY(site_of(config))) {
    std::vector<power::GpuLimits> limits;
    for (std::uint32_t gpu = 0; gpu < on.queues->count(); ++gpu) limits.push_back(power::limits_of(*on.queues, gpu));
    auto settings = power::resolve(site->settings, limits);
    // A GPU that was exchanged for another model must not keep the node from starting.
    if (!settings) on.tell_site(std::unexpected(settings.error()));
    else on.leases->set_site(std::move(*settings), [&on](const Result<void>& done) { on.tell_site(done); });
  }
  return std::unique_ptr<PowerControl>(new PowerControl(std::move(impl)));
}

PowerControl::PowerControl(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PowerControl::~PowerControl() = default;

api::PowerRoutes& PowerControl::routes(http::Loop& loop, const config::Config& config, api::Service& service) {
  Impl* on = impl_.get();
  return on->routes.emplace(
      loop,
      api::PowerSources{
          .queues = *on->queues,
          .keeper = *on->leases,
          .access = on->access,
          .may_set = [on](const http::Peer& peer, const node::Caller& caller, const power::SettingsByGpu& settings,
                          bool by_lease) { return on->may_set(peer, caller, settings, by_lease); },
          .may_hold = [on](const node::Caller& caller, std::uint32_t pid) { return on->may_hold(caller, pid); },
          .fresh = [&service] { return service.fresh(); },
          .changed = [&service] { service.changed(); },
          .profiles = [on] { return on->profiles; },
          .drift = config["power.drift"].value,
          .at_start = config["power.at_start"].value});
}

power::ControlQueues& PowerControl::queues() { return *impl_->queues; }

Result<void> PowerControl::may_write(const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& gpus,
                                     const power::Command& command) const {
  return impl_->may_write(caller, gpus, command);
}

void PowerControl::save_before(const api::ZeusdCaller& caller, bool login, const std::vector<std::uint32_t>& gpus,
                               const power::Command& command, std::function<void(Result<void>)> begin) {
  if (!caller.peer.is_unix) return begin({});
  // The kernel knows the leader even if it has ended.
  const pid_t holder = caller.peer.pid <= 0 ? 0 : login ? ::getsid(caller.peer.pid) : caller.peer.pid;
  if (holder <= 0)
    return begin(fail(ErrorCode::denied, "your process cannot be seen from here, so its settings could not end with it",
                      "zeusd.session = \"none\" lets settings stay"));
  power::SessionWrite write{.holder_pid = static_cast<std::uint32_t>(holder),
                            .owner_uid = caller.peer.user.value_or(caller.peer.uid),
                            .uuids = {},
                            .command = command};
  for (const std::uint32_t gpu : gpus) write.uuids.push_back(impl_->queues->gpu(gpu).identity().uuid);
  if (impl_->leases->covers(write)) return begin({});
  impl_->leases->begin_session_write(std::move(write), std::move(begin));
}

bool PowerControl::reads_live(const api::ZeusdCaller& caller, std::optional<std::uint32_t> gpu) const {
  return impl_->reads_live(caller, gpu);
}

Result<void> PowerControl::allow(const config::Config& config) {
  impl_->grants = TRY(grants_of(config));
  impl_->profiles = config.power_profiles;
  return {};
}

void PowerControl::release_driver(const std::string& uuid, std::chrono::seconds pause) {
  const auto given_up = std::make_shared<std::promise<Result<void>>>();
  impl_->leases->give_up_persistence(uuid, static_cast<std::uint32_t>(pause.count()),
                                     [given_up](const Result<void>& done) { given_up->set_value(done); });
  // Release the driver in any case: without persistence mode it has nothing to give up.
  if (const auto done = given_up->get_future().get(); !done) say(JournalLevel::warning, done.error().message);
  impl_->driver->release(pause);
}

void PowerControl::hold_exclusive(const std::string& uuid, std::uint32_t holder_pid,
                                  std::function<void(Result<void>)> done) {
  constexpr std::uint32_t kExclusiveProcess = 3;
  const auto held = impl_->leases->holder_of(uuid, {.operation = power::Operation::set_compute_mode});
  if (held && held->holder_pid == holder_pid) return done({});
  power::LeaseTerms terms{.wanted = {}, .holder_pid = holder_pid};
  terms.wanted[uuid].compute_mode = kExclusiveProcess;
  impl_->leases->create(std::move(terms), ::geteuid(), [done = std::move(done)](const Result<power::Lease>& lease) {
    done(lease ? Result<void>{} : std::unexpected(lease.error()));
  });
}

void PowerControl::tick() {
  std::vector<power::AuditEntry> entries;
  {
    const std::lock_guard lock(impl_->audit_mutex);
    entries = impl_->audit.due(steady_now_ns());
  }
  for (const power::AuditEntry& entry : entries) impl_->tell(entry);
}

bool PowerControl::stops_within(std::chrono::nanoseconds patience) {
  return impl_->leases->stop(patience) && impl_->queues->stops_within(patience);
}

}  // namespace headgate::daemon
