#include "daemon/share_listeners.hpp"

#include <chrono>
#include <limits>
#include <utility>

#include "daemon/journal.hpp"
#include "http/io.hpp"
#include "node/processes.hpp"

namespace headgate::daemon {
namespace {

using OwnerUid = std::optional<std::uint32_t>;  // of the share; empty if it is gone

std::string process_text(const identity::Process& process) {
  return "process " + std::to_string(process.pid) + " (" + process.command + ")";
}

snapshot::Event event_of(const char* kind, const tenancy::TenantProcess& tenant, OwnerUid owner, const char* what) {
  return {.kind = kind,
          .severity = "info",
          .share = tenant.share,
          .pid = tenant.process.pid,
          .uid = tenant.uid,
          .owner_uid = owner,
          .text = "process " + std::to_string(tenant.process.pid) + " (" + tenant.process.command + ", " +
                  node::where_text(tenant.where) + ") " + what + tenant.share};
}

snapshot::Event joined_event(const tenancy::TenantProcess& tenant, OwnerUid owner) {
  return event_of("process.joined", tenant, owner, tenant.adopted ? "was found in " : "joined ");
}

snapshot::Event left_event(const tenancy::TenantProcess& tenant, OwnerUid owner) {
  return event_of("process.left", tenant, owner, "left ");
}

// A peer's claim at the share's socket that the kernel contradicts.
snapshot::Event lie_event(const std::string& share, const identity::Peer& peer, const std::string& what,
                          OwnerUid owner) {
  return {.kind = "tenant.lied",
          .severity = "warn",
          .share = share,
          .pid = peer.process.pid,
          .uid = peer.uid,
          .owner_uid = owner,
          .text = process_text(peer.process) + " tried to join " + share + ": " + what};
}

// A process in a share that asks first, which was not asked about.
snapshot::Event unasked_event(const tenancy::TenantProcess& tenant, OwnerUid owner) {
  return {.kind = "tenant.lied",
          .severity = "warn",
          .share = tenant.share,
          .pid = tenant.process.pid,
          .uid = tenant.uid,
          .owner_uid = owner,
          .text = process_text(tenant.process) + " is in " + tenant.share +
                  ", where a scheduler must admit each process, and none has admitted it"};
}

}  // namespace

ShareListeners::ShareListeners(Context& context, NodeHost& node, SchedulerChannel& scheduler, Hooks hooks)
    : context_(context),
      node_(node),
      scheduler_(scheduler),
      hooks_(std::move(hooks)),
      processes_(http::context_of(context.loop).get_executor(), node.node().shares(), "/proc", process_events(),
                 ledger::Remains::draining),
      sockets_(http::context_of(context.loop).get_executor(), node.node().shares(), processes_, "/proc",
               scheduler.bounds(), socket_events()) {
  node.node().managed.tenants = &processes_;
}

tenancy::Processes::Events ShareListeners::process_events() {
  return {.joined =
              [this](const auto& tenant) {
                node_.former().remember(tenant.process.pid, {tenant.share, node_.owner_of(tenant.share)});
                hooks_.joined(tenant);
                if (processes_.count_in(tenant.share) == 1) node_.node().managed.divide_unattended(tenant.share);
              },
          .left = [this](const auto& tenant) { left(tenant); },
          .admitted =
              [this](const auto& tenant) { context_.events.add(joined_event(tenant, node_.owner_of(tenant.share))); }};
}

tenancy::RegistrationServer::Events ShareListeners::socket_events() {
  return {.lied =
              [this](const std::string& share, const identity::Peer& peer, const std::string& what) {
                context_.events.add(lie_event(share, peer, what, node_.owner_of(share)));
              },
          .bell =
              [this](const std::string& share, UniqueFd bell) {
                const auto added = node_.node().arbitrate(share, std::move(bell));
                if (!added) warn(added.error().message + "; tried again");
                return added.has_value();
              },
          .ask = [this](const auto& share, const auto& tenant,
                        auto decide) { return scheduler_.scheduler()->admit(share, tenant, std::move(decide)); },
          .handed = [this](const std::string& share) { return node_.node().handed(share); },
          .trouble = [](const std::string& what) { warn(what); }};
}

void ShareListeners::left(const tenancy::TenantProcess& tenant) {
  node::Node& node = node_.node();
  if (processes_.count_in(tenant.share) == 0) node.managed.divide_unattended(tenant.share);
  node.reporter.look_for_refusals(tenant.share);
  hooks_.left(tenant);
  // The share may already have been removed, so use the owner recorded when the process joined.
  const auto former = node_.former().of(tenant.process.pid);
  if (tenant.admitted)
    context_.events.add(
        left_event(tenant, former.name == tenant.share ? former.owner_uid : node_.owner_of(tenant.share)));
}

void ShareListeners::open() {
  open_shut();
  // Look at all of them while no client waits: processes from before the daemon are known from its first second.
  processes_.adopt(std::numeric_limits<std::size_t>::max());
}

void ShareListeners::add(const std::string& share) {
  if (auto opened = sockets_.open(share); !opened) warn(opened.error().message);
}

void ShareListeners::remove(const std::string& share) {
  sockets_.close(share);
  processes_.forget(share);
}

void ShareListeners::open_shut() {
  const auto opened = sockets_.open_all();
  const std::string trouble = opened ? "" : "programs cannot enter a share: " + opened.error().message;
  if (std::exchange(trouble_, trouble) != trouble && !trouble.empty()) warn(trouble);
}

void ShareListeners::tell_unadmitted() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto patience = scheduler_.bounds().answer + std::chrono::seconds(3);
  for (const auto& tenant : unadmitted_.look(node_.node().shares(), processes_, now, patience))
    context_.events.add(unasked_event(tenant, node_.owner_of(tenant.share)));
}

// One process of a share can shut down the bell that all of them hold.
void ShareListeners::replace_bells() {
  for (const std::string& name : node_.arbitration().doorbell_closed()) {
    auto bell = sockets_.new_bell(name, std::chrono::steady_clock::now());
    if (bell && !*bell) continue;
    const auto heard = bell ? node_.node().replace_bell(name, std::move(*bell)) : std::unexpected(bell.error());
    if (!heard) warn(heard.error().message);
  }
}

}  // namespace headgate::daemon
