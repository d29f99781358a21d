// How the manager watches its groups: what a look finds, what it reports, and what it starts again.
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "identity/process.hpp"
#include "mps/manager.hpp"
#include "mps/messages.hpp"

namespace headgate::mps {
namespace {

// Looks after unusual words of a server's log, which may come before the tool tells a fault. They are counted, because
// a tool that is slow on a busy machine would take up a span of time with one of them.
constexpr int kLooksAfterNews = 4;
constexpr std::size_t kMostFormer = 64;  // servers whose faults are told: the log's lines may be anyone's

// Lack of permission or descriptors shows nothing: only the kernel's word, or a zombie's entry, is certain.
bool has_ended(pid_t pid, const std::string& proc) {
  if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
  const auto process = identity::read_process(proc, static_cast<std::uint32_t>(pid));
  return process && process->ended;
}

}  // namespace

void Manager::look(const GroupKey& key) {
  const auto found = groups_.find(key);
  if (found == groups_.end()) return;
  found->second.looks_left = std::max(0, found->second.looks_left - 1);
  look_at(found->second);
}

void Manager::look() {
  std::vector<GroupKey> keys;
  for (const auto& [key, group] : groups_) keys.push_back(key);
  for (const GroupKey& key : keys) look(key);
}

// A server serves one user at a time: other users' programs block in their first call until its clients have ended.
void Manager::tell_queued(Group& group, const std::vector<pid_t>& servers) {
  group.served_uid.reset();
  if (group.note.key.is_for_all()) return;
  std::set<std::uint32_t> queued;
  for (const pid_t server : servers) {
    const auto serves = identity::read_process(options_.proc, static_cast<std::uint32_t>(server));
    if (!serves) continue;
    group.served_uid = serves->uid;
    for (const Holder& holder : group.note.holders) {
      const auto waits = identity::read_process(options_.proc, holder.process.pid);
      if (!waits || waits->uid == serves->uid) continue;
      queued.insert(holder.process.pid);
      if (group.told_queued.contains(holder.process.pid) || !options_.tell) continue;
      options_.tell({.kind = "mps.queued",
                     .trouble = true,
                     .group = group.note.key,
                     .text = "GPU " + describe(group.note.key) + ": process " + std::to_string(holder.process.pid) +
                             " of uid " + std::to_string(waits->uid) + " in share " + holder.share +
                             " waits behind the MPS server of uid " + std::to_string(serves->uid) +
                             ", until that user's programs there have ended",
                     .share = holder.share,
                     .pid = holder.process.pid,
                     .uid = waits->uid});
    }
  }
  group.told_queued = std::move(queued);
}

// Asks again before it acts, because one slow answer is no reason to end clients. A server that does not answer is
// killed with its group: its clients hang with it. A silent control daemon is replaced, as it takes no more clients;
// its servers keep theirs. A malformed or late answer is only reported.
void Manager::not_answered(Group& group, const Error& why) {
  const GroupKey& key = group.note.key;
  group.suspects.clear();
  const auto only_report = [&](const std::string& then) {
    if (!std::exchange(group.silent, true))
      tell("mps.failed", true, key, "GPU " + describe(key) + ": " + whole_text(why) + then);
  };
  if (why.code != ErrorCode::unreachable) return only_report("");
  const Tool tool = tool_of(group);
  const auto listed = tool.servers();
  const bool by_server = listed && std::ranges::any_of(*listed, [&](pid_t server) {
                           const auto seen = tool.look(server);
                           return !seen && seen.error().code == ErrorCode::unreachable;
                         });
  if (listed && !by_server) return only_report("; it answers again");
  const std::string wedged = by_server ? "its MPS server" : "its control daemon";
  tell("mps.wedged", true, key,
       "GPU " + describe(key) + ": " + wedged + " is wedged: " + whole_text(why) +
           (by_server ? "; the group is restarted; start its programs again too" : ""));
  const auto servers = by_server ? ItsServers::kill : ItsServers::leave;
  if (auto killed = kill_daemon(group.daemon, servers, options_.proc); !killed)
    return tell("mps.failed", true, key, whole_text(killed.error()));
  group.daemon = {};
  start_again(group, wedged + " did not answer");
}

void Manager::start_again(Group& group, const std::string& why) {
  const auto done = restart(group);
  if (std::exchange(group.failing, !done) && !done) return;  // the next look tries again
  tell(done ? "mps.restarted" : "mps.failed", !done, group.note.key,
       "GPU " + describe(group.note.key) + ": " + (done ? "started again: " + why : whole_text(done.error())));
}

// The log tells a fault whose clients end before the tool is asked again.
void Manager::read_log(Group& group) {
  const LogNews news = group.log.news();
  if (news.unusual) group.looks_left = kLooksAfterNews - 1;
  for (const auto& [server, clients] : news.faults) {
    if (server != 0 && !serves(group, server)) {
      tell_former_fault(group, server, clients);
      continue;
    }
    // Those of the last look, unless they were another server's.
    std::set<pid_t> all = clients;
    if (server == 0 || group.server == 0 || server == group.server)
      all.insert(group.clients.begin(), group.clients.end());
    note_fault(group, all);
  }
}

// A server that another has followed, or whose control daemon was replaced, may still write into the group's log.
bool Manager::serves(const Group& group, pid_t server) const {
  const auto process = identity::read_process(options_.proc, static_cast<std::uint32_t>(server));
  return process && !process->ended && process->parent == group.note.daemon.pid;
}

void Manager::tell_former_fault(Group& group, pid_t server, const std::set<pid_t>& clients) const {
  if (group.told_former.size() >= kMostFormer || !group.told_former.insert(server).second) return;
  tell("mps.fault", true, group.note.key,
       "GPU " + describe(group.note.key) + ": MPS server " + std::to_string(server) +
           ", which serves no longer, had a fault, which its clients shared: processes " + list_of(clients));
}

void Manager::note_fault(Group& group, const std::set<pid_t>& clients) {
  group.state = ServerState::fault;
  group.fault_clients.insert(clients.begin(), clients.end());
  if (std::exchange(group.faulty, true)) return;
  tell("mps.fault", true, group.note.key,
       "GPU " + describe(group.note.key) + ": its MPS server has a fault, which all its clients share: processes " +
           list_of(group.fault_clients) + "; it serves again once they have ended");
}

// Returns what shows that a server hangs, though the control daemon answers.
Manager::Suspects Manager::suspects_of(const Group& group, const std::vector<pid_t>& servers) const {
  Suspects all;
  for (const pid_t client : group.clients)
    if (has_ended(client, options_.proc)) all.emplace(client, 0);
  const auto unanswered = group.log.unanswered();
  for (const pid_t server : servers)
    if (const auto found = unanswered.find(server); found != unanswered.end()) all.insert(*found);
  return all;
}

// A client that was killed with work under way may leave such a server. Its other clients are left to end. Only what
// each look has seen since the first counts: clients that end and requests that wait a moment are no sign.
void Manager::look_for_wedge(Group& group, const std::vector<pid_t>& servers) {
  const auto now = std::chrono::steady_clock::now();
  Suspects present = suspects_of(group, servers), lasting;
  std::ranges::set_intersection(group.suspects, present, std::inserter(lasting, lasting.end()));
  if (lasting.empty()) {
    group.suspects = std::move(present);
    group.suspect_since = now;
    group.wedged = false;
    return;
  }
  group.suspects = std::move(lasting);
  if (!group.wedged && now - group.suspect_since < options_.limits.wedged) return;
  const auto living = [&] {
    std::vector<pid_t> all = group.clients;
    std::erase_if(all, [this](pid_t client) { return has_ended(client, options_.proc); });
    return all;
  };
  const GroupKey& key = group.note.key;
  const auto [first, request] = *group.suspects.begin();
  if (!std::exchange(group.wedged, true))
    tell("mps.wedged", true, key,
         "GPU " + describe(key) + ": its MPS server hangs: it " +
             (request == 0 ? "still lists client " + std::to_string(first) + ", which has ended"
                           : "does not answer the request of a new client") +
             "; new programs wait in their first call of the driver until the group is restarted, once its clients "
             "have ended: processes " +
             list_of(living()));
  group.state = ServerState::wedged;
  if (!living().empty()) return;
  // It may have recovered, and serve a client that this look has not seen.
  read_log(group);
  auto again = ask(group);
  if (!again) return not_answered(group, again.error());
  group.clients = std::move(again->clients);
  present = suspects_of(group, again->servers);
  const bool hangs = std::ranges::any_of(group.suspects, [&](const auto& each) { return present.contains(each); });
  if (group.faulty || !hangs || !living().empty()) return;  // the next look decides
  if (auto killed = kill_daemon(group.daemon, ItsServers::kill, options_.proc); !killed)
    return tell("mps.failed", true, key, whole_text(killed.error()));
  group.daemon = {};
  start_again(group, "its MPS server hung, and its clients have ended");
}

// Returns all servers with the highest of their states and all their clients.
Result<GroupLook> Manager::ask(const Group& group) const {
  const Tool tool = tool_of(group);
  GroupLook seen = TRY(tool.look(group.server));
  // There is rarely more than one server, and it rarely changes.
  if (seen.servers.size() == 1 && seen.servers[0] == group.server) return seen;
  for (const pid_t server : seen.servers) {
    const GroupLook one = TRY(tool.look(server));
    seen.state = std::max(seen.state, one.state);
    seen.clients.insert(seen.clients.end(), one.clients.begin(), one.clients.end());
  }
  return seen;
}

void Manager::look_at(Group& group) {
  const bool was_faulty = group.faulty;
  // Before the tool answers: clients of an answer older than the fault would look as if they had ended.
  read_log(group);
  if (!is_running(group)) return start_again(group, "its control daemon had ended");
  auto seen = ask(group);
  if (!seen) return not_answered(group, seen.error());
  group.silent = false;
  group.server = seen->servers.size() == 1 ? seen->servers[0] : 0;
  group.servers = seen->servers.size();
  tell_queued(group, seen->clients.empty() ? std::vector<pid_t>{} : seen->servers);
  const ServerState told = group.state = seen->state;
  group.clients = std::move(seen->clients);
  if (told == ServerState::fault) note_fault(group, {group.clients.begin(), group.clients.end()});
  if (!group.faulty) return look_for_wedge(group, seen->servers);
  group.suspects.clear();
  group.wedged = false;
  group.state = ServerState::fault;
  if (group.clients.empty()) return start_again(group, "the clients of its faulty server have ended");
  if (std::ranges::any_of(group.clients, [&](pid_t pid) { return group.fault_clients.contains(pid); })) return;
  if (!was_faulty) return;  // the fault's last lines may still be coming
  group.state = told;
  group.faulty = false;
  group.fault_clients.clear();
}

bool Manager::is_unsettled(const GroupKey& key) const {
  const auto found = groups_.find(key);
  return found != groups_.end() && (found->second.faulty || found->second.looks_left > 0 ||
                                    (!found->second.suspects.empty() && !found->second.wedged));
}

}  // namespace headgate::mps
