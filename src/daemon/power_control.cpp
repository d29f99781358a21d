#include "daemon/power_control.hpp"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <utility>

#include "base/now.hpp"
#include "base/whole_number.hpp"
#include "config/command_overrides.hpp"
#include "config/config.hpp"
#include "daemon/journal.hpp"
#include "install/paths.hpp"
#include "power/overriding_manager.hpp"
#include "power/permission.hpp"
#include "power/request.hpp"

namespace headgate::daemon {
namespace {

// On a simulated node the tool finds the simulated driver.
Result<power::TimeSliceTool> time_slice_tool(const Context& context) {
  power::TimeSliceTool::Options options;
  if (const std::string& named = context.config["power.nvidia_smi"].value; !named.empty()) options.program = named;
  const std::string& node = context.source.simulated_directory;
  if (!node.empty())
    options.environment = {"LD_LIBRARY_PATH=" + TRY(install::simulator_libraries()), "HEADGATE_SIM_DIR=" + node};
  return power::TimeSliceTool(std::move(options));
}

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

// Errors: usage, for a user or group that this machine does not know.
Result<std::vector<power::Grant>> grants_of(const config::Config& config) {
  std::vector<power::Grant> grants;
  for (const config::PowerGrant& one : config.power_grants) grants.push_back(TRY(grant_of(one)));
  return grants;
}

// Errors: of the file zeusd.command_overrides.
Result<config::CommandOverrides> overrides_of(const config::Config& config) {
  const std::string& path = config["zeusd.command_overrides"].value;
  if (path.empty()) return config::CommandOverrides{};
  return TRY(config::load_command_overrides(path)).overrides;
}

// Returns the profile of power.at_start; empty: none is named. Errors: usage, if there is none of that name.
Result<std::optional<config::PowerProfile>> site_of(const config::Config& config) {
  const config::Setting& named = config["power.at_start"];
  if (named.value.empty()) return std::optional<config::PowerProfile>{};
  const auto found = std::ranges::find(config.power_profiles, named.value, &config::PowerProfile::name);
  if (found != config.power_profiles.end()) return std::optional(*found);
  return fail(ErrorCode::usage, named.origin + ": power.at_start = '" + named.value + "' names no profile",
              "write [power.profile." + named.value + "], or name one that is there");
}

}  // namespace

Result<void> PowerControl::check(const config::Config& config) {
  TRY(site_of(config));
  TRY(grants_of(config));
  TRY(overrides_of(config));
  return {};
}

Result<std::unique_ptr<PowerControl>> PowerControl::start(Context& context, const node::Node& node) {
  std::unique_ptr<PowerControl> control(new PowerControl(context));
  auto grants = TRY(grants_of(context.config));
  control->profiles_ = context.config.power_profiles;
  TRY(control->start_queues());
  TRY(control->start_leases(context.places.leases_file));
  control->permissions_.emplace(node, context.access, *control->queues_, *control->leases_, std::move(grants));
  TRY(control->apply_site());
  return control;
}

Result<void> PowerControl::start_queues() {
  driver_ = TRY(power::NvmlSession::open(context_.source.library));
  auto gpus = power::NvmlSession::managers(driver_, TRY(time_slice_tool(context_)));
  const auto overrides = TRY(overrides_of(context_.config));
  for (std::uint32_t gpu = 0; gpu < gpus.size(); ++gpu)
    gpus[gpu] = power::overriding_manager(std::move(gpus[gpu]), gpu, overrides);
  queues_ = std::make_unique<power::ControlQueues>(
      std::move(gpus), [this](const power::Executed& done) { reports_.executed(done, *queues_); });
  return {};
}

// A damaged file is put aside: the node is metered even if it is unknown what former leases had changed.
Result<void> PowerControl::start_leases(const std::string& file) {
  power::LeaseKeeper::Options options;
  options.file = file;
  options.now_s = lease_now_s;
  options.tell = [this](const power::LeaseNews& news) { reports_.lease(news); };
  options.reapply = context_.config["power.drift"].value == "reapply";
  leases_.emplace(*queues_, std::move(options));
  const auto started = leases_->start();
  if (started) return {};
  const std::string aside = file + ".damaged";
  if (started.error().code != ErrorCode::failed || std::rename(file.c_str(), aside.c_str()) != 0) return started;
  reports_.damaged_leases(started.error().message, aside);
  return leases_->start();
}

Result<void> PowerControl::apply_site() {
  const auto site = TRY(site_of(context_.config));
  if (!site) return {};
  std::vector<power::GpuLimits> limits;
  for (std::uint32_t gpu = 0; gpu < queues_->count(); ++gpu) limits.push_back(power::limits_of(*queues_, gpu));
  auto settings = power::resolve(site->settings, limits);
  // A GPU that was exchanged for another model must not keep the node from starting.
  if (!settings) reports_.site(std::unexpected(settings.error()));
  else leases_->set_site(std::move(*settings), [this](const Result<void>& done) { reports_.site(done); });
  return {};
}

void PowerControl::add_routes(http::Router& router, api::Service& service) {
  api::add_power_routes(
      router, context_.loop,
      {.queues = *queues_,
       .keeper = *leases_,
       .access = context_.access,
       .may_set = [this](const http::Peer& peer, const node::Caller& caller, const power::SettingsByGpu& settings,
                         bool by_lease) { return permissions_->may_set(peer, caller, settings, by_lease); },
       .may_hold = PowerPermissions::may_hold,
       .fresh = [&service] { return service.fresh(); },
       .changed = [&service] { service.changed(); },
       .profiles = [this] { return profiles_; },
       .drift = context_.config["power.drift"].value,
       .at_start = context_.config["power.at_start"].value});
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
  for (const std::uint32_t gpu : gpus) write.uuids.push_back(queues_->gpu(gpu).identity().uuid);
  if (leases_->covers(write)) return begin({});
  leases_->begin_session_write(std::move(write), std::move(begin));
}

Result<void> PowerControl::allow(const config::Config& config) {
  permissions_->set_grants(TRY(grants_of(config)));
  profiles_ = config.power_profiles;
  return {};
}

void PowerControl::release_driver(const std::string& uuid, std::chrono::seconds pause) {
  const auto given_up = std::make_shared<std::promise<Result<void>>>();
  leases_->give_up_persistence(uuid, static_cast<std::uint32_t>(pause.count()),
                               [given_up](const Result<void>& done) { given_up->set_value(done); });
  // Release the driver in any case: without persistence mode it has nothing to give up.
  if (const auto done = given_up->get_future().get(); !done) warn("power: " + done.error().message);
  driver_->release(pause);
}

void PowerControl::hold_exclusive(const std::string& uuid, std::uint32_t holder_pid,
                                  std::function<void(Result<void>)> done) {
  constexpr std::uint32_t kExclusiveProcess = 3;
  const auto is_held = [this, uuid, holder_pid] {
    const auto held = leases_->holder_of(uuid, {.operation = power::Operation::set_compute_mode});
    return held && !held->ending && held->holder_pid == holder_pid;
  };
  if (is_held()) return done({});
  power::LeaseTerms terms{.wanted = {}, .holder_pid = holder_pid};
  terms.wanted[uuid].compute_mode = kExclusiveProcess;
  leases_->create(std::move(terms), ::geteuid(), [is_held, done = std::move(done)](const Result<power::Lease>& lease) {
    // Another request of the same holder may have come first.
    done(lease || is_held() ? Result<void>{} : std::unexpected(lease.error()));
  });
}

}  // namespace headgate::daemon
