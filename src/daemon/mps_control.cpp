#include "daemon/mps_control.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "daemon/journal.hpp"
#include "identity/process.hpp"
#include "install/paths.hpp"
#include "snapshot/gpu_name.hpp"

namespace headgate::daemon {
namespace {

// The keeper can need longer, if the tool hangs for this group or another: the caller then asks again.
constexpr std::chrono::seconds kTakeOff{7};

// A warning's event is a line of the journal too (context.cpp).
void tell_mps(observe::EventLog& events, const mps::News& news) {
  if (!news.trouble) note("mps: " + news.text);
  events.add({.kind = news.kind,
              .severity = news.trouble ? "warn" : "info",
              .share = news.share,
              .uuid = news.group.uuid,
              .pid = news.pid,
              .uid = news.uid,
              .owner_uid = news.group.is_for_all() ? 0 : news.group.uid,  // its texts name processes of all users
              .text = news.text});
}

mps::GroupKey group_of(const node::MpsShare& share) {
  return {share.uuid, share.for_all ? mps::kAllUsers : share.owner_uid};
}

mps::Tenant tenant_in(const node::MpsShare& share, mps::ProcessMark process, bool is_program) {
  return {.group = group_of(share),
          .settings = {.percent = share.thread_percentage, .pinned_bytes = share.memory_limit_bytes},
          .low_priority = share.low_priority,
          .holder = {.process = process, .share = share.name, .is_program = is_program}};
}

// Before Volta a control daemon takes the option, and then programs of all users but root fail in cuInit
// (CUDA_ERROR_NOT_PERMITTED, seen on Pascal with driver 580).
void serve_all_users(node::NodeOptions& options, observe::EventLog& events) {
  constexpr std::uint32_t kVolta = 7;
  for (const snapshot::Gpu& gpu : options.gpus)
    if (gpu.compute_capability_major >= kVolta) options.mps_for_all.insert(gpu.uuid);
    else
      tell_mps(events, {.kind = "mps.single_user",
                        .trouble = true,
                        .group = {gpu.uuid, mps::kAllUsers},
                        .text = "MPS serves one user at a time on " + snapshot::gpu_name(gpu) +
                                ", although mps.multi_user is set: the GPU is older than Volta, or the driver does not "
                                "tell its compute capability"});
}

constexpr int kReported = 3, kSkipped = 60;

}  // namespace

Result<std::unique_ptr<MpsControl>> MpsControl::start(Context& context, node::Node& node, Exclusive exclusive) {
  const config::Config& config = context.config;
  observe::EventLog& events = context.events;
  if (config["mps.exclusive"].value != "true") exclusive = {};
  mps::Manager::Options options;
  const std::string& named = config["mps.tool"].value;
  if (!named.empty()) options.tool = named;
  else if (!context.source.simulated_directory.empty())
    options.tool = TRY(install::simulator_libraries()) + "/nvidia-cuda-mps-control";
  options.base = context.places.runtime_dir + "/mps";
  options.file = context.places.runtime_dir + "/mps.json";
  options.multi_user = config["mps.multi_user"].value == "true";
  options.tell = [&events](const mps::News& news) { tell_mps(events, news); };
  const std::string file = options.file;
  std::unique_ptr<MpsControl> control(new MpsControl(std::move(options), context, node, std::move(exclusive)));
  if (auto started = control->keeper_.start(); !started) {
    const std::string aside = file + ".damaged";
    if (std::rename(file.c_str(), aside.c_str()) != 0) return std::unexpected(started.error());
    tell_mps(events, {.kind = "mps.notes_damaged",
                      .trouble = true,
                      .group = {},
                      .text = started.error().message + "; the file is kept as " + aside});
    TRY(control->keeper_.start());
  }
  if (control->keeper_.has_multi_user()) serve_all_users(node.managed.options, events);
  return control;
}

MpsControl::MpsControl(mps::Manager::Options options, Context& context, node::Node& node, Exclusive exclusive)
    : node_(node),
      access_(context.access),
      events_(context.events),
      base_(options.base),
      exclusive_(std::move(exclusive)),
      modes_(exclusive_,
             [this](const mps::GroupKey& key, const Error& why) {
               tell_mps(events_, {.kind = "mps.failed", .trouble = true, .group = key, .text = why.message});
             }),
      keeper_(std::move(options)) {}

void MpsControl::add_routes(http::Router& router) {
  api::add_mps_routes(
      router,
      {.access = access_,
       .groups = [this] { return keeper_.groups(); },
       .take_off = [this](pid_t client,
                          std::function<void(Result<bool>)> done) { keeper_.take_off(client, std::move(done)); },
       .may_end = [this](const node::Caller& caller, std::uint32_t pid) { return may_end(caller, pid); }});
}

void MpsControl::prepare(node::Entry entry, const node::Caller& caller, std::function<void(Result<node::Entry>)> done) {
  const auto share = node_.access.mps_share(entry.share);
  if (!share) return done(std::move(entry));
  const auto process = caller.pid == 0 ? std::nullopt : mps::mark_of(caller.pid, "/proc");
  if (!process)
    return done(fail(ErrorCode::denied,
                     "the share '" + entry.share + "' is under MPS, and the process that enters it is not known",
                     "ask over the control socket, from the host's pid namespace"));
  keeper_.acquire(
      tenant_in(*share, *process, false), [this, share = *share, uid = caller.uid, entry = std::move(entry),
                                           done = std::move(done)](Result<mps::Variables> variables) mutable {
        if (!variables) return done(std::unexpected(variables.error()));
        entry.variables = std::move(*variables);
        entry.waits_for = who_is_served_before(group_of(share), uid);
        make_exclusive(group_of(share), [entry = std::move(entry), done = std::move(done)](Result<void> made) mutable {
          if (!made) return done(std::unexpected(made.error()));
          done(std::move(entry));
        });
      });
}

// A server takes clients of one user at a time.
std::string MpsControl::who_is_served_before(const mps::GroupKey& key, std::uint32_t uid) const {
  for (const mps::GroupView& group : keeper_.groups())
    if (group.key == key && group.served_uid && *group.served_uid != uid)
      return "the MPS server of " + key.uuid + " serves uid " + std::to_string(*group.served_uid) +
             " until that user's programs there have ended (" + std::to_string(group.clients.size()) + " now)";
  return {};
}

// The lease ends with the control daemon, even if headgated ends first.
void MpsControl::make_exclusive(const mps::GroupKey& key, std::function<void(Result<void>)> done) const {
  if (!exclusive_) return done({});
  for (const mps::GroupView& group : keeper_.groups())
    if (group.key == key) return exclusive_(key.uuid, group.daemon_pid, std::move(done));
  done(fail(ErrorCode::failed, "MPS start: the control daemon of " + key.uuid + " has ended"));
}

void MpsControl::joined(const tenancy::TenantProcess& tenant) {
  const auto share = node_.access.mps_share(tenant.share);
  if (!share) return;
  const mps::ProcessMark process{tenant.process.pid, tenant.process.start_time};
  keeper_.acquire(
      tenant_in(*share, process, true), [&events = events_, group = group_of(*share)](const auto& variables) {
        if (!variables)
          tell_mps(events, {.kind = "mps.failed", .trouble = true, .group = group, .text = variables.error().message});
      });
}

Result<std::optional<oci::MpsClient>> MpsControl::container_client(const std::string& name) const {
  const auto share = node_.access.mps_share(name);
  if (!share) return std::nullopt;
  const mps::Tenant tenant = tenant_in(*share, {}, true);
  const mps::Places places = TRY(mps::places_of(base_, tenant.group));
  TRY(mps::make_places(base_, places));
  oci::MpsClient client{.pipe_directory = places.pipe, .env = {}};
  for (const auto& [variable, value] : mps::variables_of(tenant, places)) client.env.push_back(variable + "=" + value);
  return client;
}

Result<bool> MpsControl::take_off(std::uint32_t pid) { return keeper_.take_off(static_cast<pid_t>(pid), kTakeOff); }

// Allows what the kernel allows for signals, and everything to an administrator.
Result<void> MpsControl::may_end(const node::Caller& caller, std::uint32_t pid) const {
  const auto process = identity::read_process("/proc", pid);
  if (caller.known() && process && caller.owns(process->uid)) return {};
  return fail(ErrorCode::not_found, "there is no process " + std::to_string(pid) + " of yours",
              "headgate ps lists them");
}

bool MpsModes::is_due(const mps::GroupKey& group, std::uint32_t pid) {
  const std::lock_guard lock(mutex_);
  Failures& failures = failures_[group];
  failures.daemon_pid = pid;
  if (failures.in_a_row >= kReported && ++failures.skipped < kSkipped) return false;
  failures.skipped = 0;
  return true;
}

void MpsModes::done(const mps::GroupKey& group, std::uint32_t pid, const Result<void>& held) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = failures_.find(group);
    if (found == failures_.end() || found->second.daemon_pid != pid) return;
    found->second.in_a_row = held ? 0 : found->second.in_a_row + 1;
    if (found->second.in_a_row != kReported) return;
  }
  report_(group, held.error());
}

void MpsModes::keep(const std::vector<mps::GroupView>& groups) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(failures_, [&groups](const auto& each) {
      return std::ranges::none_of(groups, [&each](const mps::GroupView& group) {
        return group.key == each.first && group.daemon_pid == each.second.daemon_pid;
      });
    });
  }
  for (const mps::GroupView& group : groups) {
    const std::uint32_t pid = group.daemon_pid;
    if (pid == 0 || !is_due(group.key, pid)) continue;
    hold_(group.key.uuid, pid, [this, key = group.key, pid](const Result<void>& held) { done(key, pid, held); });
  }
}

}  // namespace headgate::daemon
