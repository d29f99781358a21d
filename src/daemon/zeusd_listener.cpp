#include "daemon/zeusd_listener.hpp"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <set>

#include "api/power_leases.hpp"
#include "api/zeusd.hpp"
#include "base/now.hpp"
#include "base/user_name.hpp"
#include "base/version.hpp"
#include "base/whole_number.hpp"
#include "config/command_overrides.hpp"
#include "daemon/settings.hpp"
#include "daemon/zeusd_log.hpp"
#include "http/server.hpp"
#include "identity/process.hpp"
#include "power/lease_keeper.hpp"
#include "power/nvml_manager.hpp"
#include "power/overriding_manager.hpp"
#include "power/write_audit.hpp"

namespace headgate::daemon {
namespace {

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

Result<std::optional<std::string>> key_of(const config::Config& config) {
  const std::string& path = config["zeusd.signing_key"].value;
  if (path.empty()) return std::optional<std::string>{};
  return std::optional(TRY(power::read_signing_key(path)));
}

Result<std::vector<config::ListenAddress>> addresses_of(const config::Config& config, bool has_key) {
  std::vector<config::ListenAddress> addresses;
  const config::Setting& listen = config["zeusd.listen"];
  for (const std::string& one : list_of(listen.value)) {
    const std::string said = listen.origin + ": zeusd.listen =";
    if (auto may = config::may_listen(said, one, has_key); !may)
      return fail(ErrorCode::usage, may.error().message, "set zeusd.signing_key, or listen on 127.0.0.1");
    addresses.push_back(TRY(address_of(said, one, true)));
  }
  return addresses;
}

Result<config::CommandOverrides> overrides_of(const config::Config& config) {
  const std::string& path = config["zeusd.command_overrides"].value;
  if (path.empty()) return config::CommandOverrides{};
  return TRY(config::load_command_overrides(path)).overrides;
}

// Root of a container has the same number as ours. A socket that is mounted there must not make it an administrator.
bool is_root_of_the_host(const http::Peer& peer) {
  if (peer.uid != 0 || peer.pid <= 0) return false;
  std::error_code theirs, ours;
  namespace fs = std::filesystem;
  const auto of_peer = fs::read_symlink("/proc/" + std::to_string(peer.pid) + "/ns/pid", theirs);
  const auto of_us = fs::read_symlink("/proc/self/ns/pid", ours);
  return !theirs && !ours && of_peer == of_us;
}

}  // namespace

struct ZeusdListener::Impl {
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
    writer.uid = caller.peer.uid;
    writer.gids.assign(caller.peer.groups.begin(), caller.peer.groups.end());
    writer.gids.push_back(caller.peer.gid);
    writer.administrator = is_root_of_the_host(caller.peer) ||
                           (caller.peer.uid != 0 && caller.peer.uid == now->daemon_uid) ||
                           (now->admin_gid && caller.peer.in_group(*now->admin_gid));
    return writer;
  }

  // `with_names`: of the owners, which a directory service may take its time to tell.
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

  Result<void> may_write(const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& gpus,
                         const power::Command& command) const {
    const power::Writer writer = writer_of(caller);
    for (const std::uint32_t gpu : gpus) {
      const power::GpuUse use = use_of(gpu, !writer.uid);
      if (auto may = power::may_write(writer, use, command, grants); !may) return may;
      if (const auto lease = leases->holder_of(use.uuid, command); lease && writer.uid != lease->owner_uid)
        return fail(ErrorCode::denied,
                    "GPU " + std::to_string(gpu) + ": this setting is held by lease " + lease->id + " of uid " +
                        std::to_string(lease->owner_uid) +
                        (lease->holder_pid != 0 ? " (process " + std::to_string(lease->holder_pid) + ")" : ""),
                    "wait for its end; an administrator can end it: DELETE /v1/power/leases/" + lease->id);
    }
    return {};
  }

  // Each of its settings on each of its GPUs, and a holder whose end the caller may wait for.
  Result<void> may_lease(const http::Peer& peer, const node::Caller& caller, const power::LeaseRequest& request) const {
    if (request.holder_pid != 0 && !caller.administrator) {
      const auto holder = TRY(identity::read_process("/proc", request.holder_pid));
      if (holder.uid != caller.uid)
        return fail(ErrorCode::denied, "process " + std::to_string(request.holder_pid) + " is not yours",
                    "name one of your own processes, or a ttl_s");
    }
    if (caller.administrator) return {};
    const power::Writer writer = writer_of({.peer = peer, .user = {}});
    for (const std::string& name : request.gpus) {
      for (std::uint32_t gpu = 0; gpu < queues->count(); ++gpu) {
        if (name != queues->gpu(gpu).identity().uuid && name != std::to_string(gpu)) continue;
        for (const power::Command& command : power::commands_to_apply(request.wanted))
          if (auto may = power::may_write(writer, use_of(gpu, false), command, grants); !may) return may;
      }
    }
    return {};
  }

  bool reads_live(const api::ZeusdCaller& caller, std::optional<std::uint32_t> gpu) const {
    const power::Writer writer = writer_of(caller);
    return writer.administrator || (gpu && power::owns_all(writer, use_of(*gpu, !writer.uid)));
  }

  // On the workers' threads.
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

  // Without persistence mode the driver unloads with its last client, and the setting is gone with it. Once for each GPU, until
  // the mode is on.
  void warn_if_forgotten(const power::Executed& done) {
    if (!done.result || !power::is_write(done.command.operation)) return;
    const auto mode = queues->gpu(done.gpu).persistence_mode();
    const bool forgets = mode && !*mode && done.command.operation != power::Operation::set_persistence_mode;
    const std::lock_guard lock(audit_mutex);
    if (forgets == forgetful.contains(done.gpu)) return;
    if (!forgets) {
      if (mode && *mode) forgetful.erase(done.gpu);
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

  Result<void> listen(http::Loop& loop, const config::Config& config, const Options& options, bool has_key) {
    http::ServerLimits limits;
    limits.connections = config.number("node.connections");
    limits.connections_per_uid = config.number("node.connections_per_user");
    limits.names = list_of(config["node.names"].value);
    server.emplace(loop, zeusd->routes(), std::move(limits));
    server->tell_trouble([](const std::string& what) { say(what); });
    const std::string path = options.zeusd_socket.empty() ? config["zeusd.socket"].value : options.zeusd_socket;
    if (!path.empty()) {
      std::error_code error;
      std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
      if (error) return fail(ErrorCode::failed, "making the directory of " + path + ": " + error.message());
      // Open to all users: each request is checked against its caller's user ID.
      if (auto bound = server->listen(http::UnixListener{.path = path, .mode = 0666, .group = {}}); !bound)
        return bound;
      where = path;
    }
    for (const config::ListenAddress& address : TRY(addresses_of(config, has_key))) {
      const std::uint16_t port = TRY(server->listen(address.host, address.port));
      where += (where.empty() ? "" : ", ") + std::string("http://") +
               (address.host.contains(':') ? "[" + address.host + "]" : address.host) + ":" + std::to_string(port);
    }
    return {};
  }

  static void say(const std::string& text) { std::fprintf(stderr, "headgated: zeusd: %s\n", text.c_str()); }

  node::Node& node;
  const api::CurrentAccess& access;
  observe::EventLog& events;
  std::vector<power::Grant> grants;
  std::mutex audit_mutex;
  power::WriteAudit audit;
  std::set<std::uint32_t> forgetful;           // under audit_mutex
  std::shared_ptr<power::NvmlSession> driver;  // shared with the managers of its GPUs
  std::optional<power::ControlQueues> queues;
  std::optional<power::LeaseKeeper> leases;
  std::optional<power::Rapl> rapl;
  std::optional<api::Zeusd> zeusd;
  std::optional<http::Server> server;
  std::string where;
};

bool ZeusdListener::is_wanted(const config::Config& config, const Options& options) {
  return !options.zeusd_socket.empty() || !config["zeusd.socket"].value.empty() ||
         !config["zeusd.listen"].value.empty();
}

Result<void> ZeusdListener::check(const config::Config& config) {
  TRY(grants_of(config));
  TRY(overrides_of(config));
  const bool has_key = TRY(key_of(config)).has_value();
  TRY(addresses_of(config, has_key));
  return {};
}

Result<std::unique_ptr<ZeusdListener>> ZeusdListener::start(http::Loop& loop, const config::Config& config,
                                                            const Options& options, const std::string& library,
                                                            const std::string& lease_file, node::Node& node,
                                                            const api::CurrentAccess& access,
                                                            observe::EventLog& events) {
  auto impl = std::make_unique<Impl>(node, access, events);
  Impl& on = *impl;
  on.grants = TRY(grants_of(config));
  on.driver = TRY(power::NvmlSession::open(library));
  auto gpus = power::NvmlSession::managers(on.driver);
  const auto overrides = TRY(overrides_of(config));
  for (std::uint32_t gpu = 0; gpu < gpus.size(); ++gpu)
    gpus[gpu] = power::overriding_manager(std::move(gpus[gpu]), gpu, overrides);
  on.queues.emplace(std::move(gpus), [&on](const power::Executed& done) { on.executed(done); });
  on.leases.emplace(*on.queues,
                    power::LeaseKeeper::Options{.file = lease_file,
                                                .now_s = lease_now_s,
                                                .tell =
                                                    [&on](const power::LeaseNews& news) {
                                                      Impl::say(news.text);
                                                      on.events.add({.kind = "power.lease",
                                                                     .severity = news.trouble ? "warn" : "info",
                                                                     .uid = news.owner_uid,
                                                                     .text = news.text});
                                                    },
                                                .reapply = config["power.drift"].value == "reapply"});
  if (auto started = on.leases->start(); !started) return std::unexpected(started.error());
  on.rapl.emplace(power::Rapl::usual_root());
  if (!on.rapl->trouble().empty()) Impl::say(on.rapl->trouble());
  api::ZeusdOptions served;
  served.groups = TRY(power::api_groups_from(config["zeusd.enable"].value));
  served.key = TRY(key_of(config));
  served.version = version_text();
  served.may_write = [&on](const api::ZeusdCaller& caller, const std::vector<std::uint32_t>& listed,
                           const power::Command& command) { return on.may_write(caller, listed, command); };
  served.reads_live = [&on](const api::ZeusdCaller& caller, std::optional<std::uint32_t> gpu) {
    return on.reads_live(caller, gpu);
  };
  const bool has_key = served.key.has_value();
  on.zeusd.emplace(loop, *on.queues, *on.rapl, std::move(served));
  if (auto listening = on.listen(loop, config, options, has_key); !listening) return std::unexpected(listening.error());
  return std::unique_ptr<ZeusdListener>(new ZeusdListener(std::move(impl)));
}

ZeusdListener::ZeusdListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZeusdListener::~ZeusdListener() = default;

void ZeusdListener::add_lease_routes(http::Router& router) {
  api::add_lease_routes(
      router, *impl_->leases, impl_->access,
      [on = impl_.get()](const http::Peer& peer, const node::Caller& caller, const power::LeaseRequest& request) {
        return on->may_lease(peer, caller, request);
      });
}

Result<void> ZeusdListener::allow(const config::Config& config) {
  impl_->grants = TRY(grants_of(config));
  return {};
}

void ZeusdListener::release_driver(const std::string& uuid, std::chrono::seconds pause) {
  const auto given_up = std::make_shared<std::promise<Result<void>>>();
  impl_->leases->give_up_persistence(uuid, static_cast<std::uint32_t>(pause.count()),
                                     [given_up](const Result<void>& done) { given_up->set_value(done); });
  // The driver is let go of all the same: without persistence mode it has nothing to give up.
  if (const auto done = given_up->get_future().get(); !done) Impl::say(done.error().message);
  impl_->driver->release(pause);
}

void ZeusdListener::tick() {
  std::vector<power::AuditEntry> entries;
  {
    const std::lock_guard lock(impl_->audit_mutex);
    entries = impl_->audit.due(steady_now_ns());
  }
  for (const power::AuditEntry& entry : entries) impl_->tell(entry);
}

const std::string& ZeusdListener::where() const { return impl_->where; }

bool ZeusdListener::stops_within(std::chrono::nanoseconds patience) {
  impl_->server->stop();
  return impl_->leases->stop(patience) && impl_->queues->stops_within(patience);
}

}  // namespace headgate::daemon
