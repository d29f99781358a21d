#include "node/processes.hpp"

#include <map>
#include <set>
#include <tuple>

#include "base/user_name.hpp"
#include "guest/ledger/slot.hpp"
#include "identity/process.hpp"
#include "node/bypass.hpp"

namespace headgate::node {
namespace {

using SeatKey = std::tuple<std::string, std::uint32_t, std::uint32_t>;  // share; pid and namespace as in the seat

SeatKey key_of(const std::string& share, const ledger::Identity& seat) { return {share, seat.pid, seat.pidns_inode}; }

// Looks each process up once in a snapshot, however many seats and GPUs refer to it.
class Found {
 public:
  explicit Found(const std::string& proc) : proc_(proc) {}

  const identity::Process* by_pid(std::uint32_t pid) {
    if (pid == 0) return nullptr;
    const auto [at, fresh] = known_.try_emplace(pid);
    if (fresh) {
      if (auto process = identity::read_process(proc_, pid)) {
        inside_.try_emplace({process->pidns_inode, process->namespace_pid}, pid);
        at->second = std::move(*process);
      }
    }
    return at->second ? &*at->second : nullptr;
  }
  // In a container: a process that uses a GPU is in the driver's list under its host pid, and was looked up by that.
  [[nodiscard]] std::uint32_t by_seat(const ledger::Identity& seat) const {
    const auto found = inside_.find({seat.pidns_inode, seat.pid});
    return found == inside_.end() ? 0 : found->second;
  }
  [[nodiscard]] const std::map<std::uint32_t, std::optional<identity::Process>>& all() const { return known_; }

 private:
  std::string proc_;
  std::map<std::uint32_t, std::optional<identity::Process>> known_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> inside_;  // pids, by namespace and number in it
};

}  // namespace

std::string where_text(const identity::Identity& identity) {
  using identity::Kind;
  const std::string id = identity.container_id.substr(0, 12);
  switch (identity.kind) {
    case Kind::host: return "host";
    case Kind::kubernetes:
      return "pod " + identity.pod_uid + (identity.engine.empty() ? "" : ", " + identity.engine) +
             (id.empty() ? "" : " " + id);
    case Kind::slurm: return "slurm " + identity.job + (identity.step.empty() ? "" : "." + identity.step);
    case Kind::systemd: return "unit " + identity.unit;
    case Kind::nspawn:
    case Kind::incus: return std::string(identity::word(identity.kind)) + " " + identity.machine;
    default: return std::string(identity::word(identity.kind)) + (id.empty() ? "" : " " + id);
  }
}

void add_processes(observe::JoinInput& input, const tenancy::Processes* tenants, const std::string& proc) {
  static const std::uint32_t own_namespace = ledger::own_identity().pidns_inode;
  std::map<SeatKey, std::uint32_t> held;
  std::set<std::uint32_t> held_pids;
  if (tenants != nullptr) {
    tenants->each([&](const tenancy::TenantProcess& tenant) {
      held[key_of(tenant.share, tenant.seat)] = tenant.process.pid;
      held_pids.insert(tenant.process.pid);
      auto& facts = input.facts[tenant.process.pid];
      facts = {.uid = tenant.uid,
               .start_time = tenant.process.start_time,
               .user = user_name(tenant.uid),
               .command = tenant.process.command,
               .where = where_text(tenant.where),
               .program = {},
               .program_parent = {}};
    });
  }
  Found found(proc);
  for (const auto& process : input.driver.processes) found.by_pid(process.pid);
  std::size_t asked = 0;
  for (const auto& ledger : input.ledgers) {
    std::size_t asked_here = 0;
    auto& pids = input.host_pids.emplace_back();
    for (const auto& seat : ledger.seats) {
      const auto known = held.find(key_of(ledger.share.name, seat.identity));
      if (known != held.end()) {
        pids.push_back(known->second);
        continue;
      }
      // A tenant can write any number into its share's page. One known to be another share's is not taken, and one that
      // has not been looked up yet is shown as claimed.
      const bool ours = seat.identity.pidns_inode == own_namespace || seat.identity.pidns_inode == 0;
      const std::uint32_t pid = ours ? seat.identity.pid : found.by_seat(seat.identity);
      pids.push_back(held_pids.contains(pid) ? 0 : pid);
      if (tenants == nullptr) {
        found.by_pid(pid);
      } else if (pids.back() != 0) {
        input.claimed.insert(pid);
        if (asked < kMaxClaimsAsked && asked_here < kMaxClaimsAskedOfAShare) ++asked, ++asked_here, found.by_pid(pid);
      }
    }
  }
  for (const auto& [pid, process] : found.all()) {
    if (!process || input.facts.contains(pid)) continue;
    auto& facts = input.facts[pid];
    facts.uid = process->uid;
    facts.start_time = process->start_time;
    facts.user = user_name(process->uid);
    facts.command = process->command;
    const auto lines = identity::read_cgroups(proc, pid);
    facts.where = lines ? where_text(identity::identify(*lines)) : "host";
    TrustedProgram program = trusted_program(pid, proc);
    facts.program = std::move(program.name);
    facts.program_parent = std::move(program.parent);
  }
  // The driver's list was read before: a program of a share that has ended since is no program outside all shares.
  if (tenants == nullptr) return;
  std::set<std::uint32_t> seated;
  for (const auto& pids : input.host_pids) seated.insert(pids.begin(), pids.end());
  std::erase_if(input.driver.processes, [&](const observe::DriverProcess& process) {
    if (seated.contains(process.pid)) return false;
    const identity::Process* const now = found.by_pid(process.pid);
    return tenants->has_ended(process.pid, now == nullptr ? 0 : now->start_time);
  });
}

}  // namespace headgate::node
