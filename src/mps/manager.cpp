#include "mps/manager.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/utf8.hpp"
#include "identity/peer.hpp"
#include "identity/process.hpp"
#include "mps/messages.hpp"
#include "mps/multi_user.hpp"

namespace headgate::mps {
namespace {

// Returns the larger of both limits.
Settings widest(const Settings& a, const Settings& b) {
  Settings all{.percent = std::max(a.percent, b.percent), .pinned_bytes = {}};
  if (a.pinned_bytes && b.pinned_bytes) all.pinned_bytes = std::max(*a.pinned_bytes, *b.pinned_bytes);
  return all;
}

}  // namespace

Variables variables_of(const Tenant& tenant, const Places& places) {
  Variables all = {{"CUDA_MPS_PIPE_DIRECTORY", places.pipe},
                   {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(tenant.settings.percent)},
                   {"CUDA_MPS_CLIENT_PRIORITY", tenant.low_priority ? "1" : "0"}};
  if (tenant.settings.pinned_bytes)
    all.emplace_back("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
                     "0=" + std::to_string(*tenant.settings.pinned_bytes >> 20) + "M");
  return all;
}

Tool Manager::tool_of(const Group& group) const {
  return {options_.tool, group.places, group.note.key.uuid, options_.limits};
}

void Manager::tell(std::string kind, bool trouble, const GroupKey& group, std::string text) const {
  if (options_.tell)
    options_.tell({.kind = std::move(kind), .trouble = trouble, .group = group, .text = std::move(text)});
}

Result<void> Manager::save() {
  options_.step();
  std::vector<GroupNote> notes;
  for (const auto& [key, group] : groups_) notes.push_back(group.note);
  auto saved = save_book(options_.file, notes);
  if (!saved) saved.error().message = "MPS setup: " + saved.error().message;
  options_.step();
  return saved;
}

Result<void> Manager::adopt() {
  for (GroupNote& note : TRY(load_book(options_.file))) adopt_group(std::move(note));
  std::vector<GroupKey> empty;
  for (const auto& [key, group] : groups_)
    if (group.note.holders.empty()) empty.push_back(key);
  for (const GroupKey& key : empty) stop(key);
  find_multi_user();
  return save();
}

// The probe's remains go even if it is not asked for any more.
void Manager::find_multi_user() {
  end_multi_user_probe(options_.base, options_.proc);
  if (!options_.multi_user) return;
  const auto found =
      probe_multi_user(options_.tool, options_.base, options_.proc, options_.limits, [this] { options_.step(); });
  has_multi_user_ = found.has_value();
  if (!found)
    tell("mps.single_user", true, {.uuid = "", .uid = kAllUsers},
         "MPS serves one user at a time, although mps.multi_user is set: " + whole_text(found.error()));
}

void Manager::adopt_group(GroupNote note) {
  const GroupKey key = note.key;
  std::erase_if(note.holders, [this](const Holder& holder) { return !open_process(holder.process, options_.proc); });
  const auto places = places_of(options_.base, key);
  if (!places) return;
  auto found = daemon_at(places->pipe, options_.proc);
  // A note without PID: our daemon was being started. Any user may make a socket in the pipe directory (01777), so the
  // listener's user decides.
  const bool is_ours = found && (found->mark == note.daemon || (note.daemon.pid == 0 && found->uid == ::geteuid()));
  if (found && !is_ours) {
    tell("mps.foreign", true, key,
         "GPU " + describe(key) + ": control daemon " + std::to_string(found->mark.pid) + " at " + places->pipe +
             " is not the one that headgated started; it is left alone");
    return;
  }
  Group& group = groups_[key];
  group.places = *places;
  group.log = ServerLog(places->log);
  group.log.skip();
  group.note = std::move(note);
  if (found) {
    group.daemon = std::move(*found);
    group.note.daemon = group.daemon.mark;
    tell("mps.adopted", false, key,
         "GPU " + describe(key) + ": control daemon " + std::to_string(group.daemon.mark.pid) + " continues with " +
             std::to_string(group.note.holders.size()) + " tenants");
    // The former daemon may have been killed before it had set them.
    if (auto done = group.note.holders.empty() ? Result<void>{} : set_again(group); !done)
      tell("mps.failed", true, key, whole_text(done.error()));
    return;
  }
  // It lives without its socket, so no program can reach it; or a killed headgated was starting it, and it does not
  // listen yet. None is between fork and exec, where it could not be recognized: until then it would hold the lock that
  // headgated has on its runtime directory.
  auto killed = kill_started(*places, ItsServers::leave, options_.proc);
  // By its mark too: its environment may be another than we would give it now.
  if (UniqueFd pidfd = open_process(group.note.daemon, options_.proc))
    if (auto noted = kill_daemon({group.note.daemon, 0, std::move(pidfd)}, ItsServers::leave, options_.proc); !noted)
      killed = noted;
  if (!killed) tell("mps.failed", true, key, killed.error().message);
  if (group.note.holders.empty()) return;
  if (auto restarted = start(group); !restarted) tell("mps.failed", true, key, whole_text(restarted.error()));
}

void Manager::tell_foreign(const GroupKey& key) {
  for (const std::string& pipe : options_.foreign_pipes) {
    const auto found = daemon_at(pipe, options_.proc);
    const std::uint32_t pid = found ? found->mark.pid : 0;
    if (std::exchange(told_foreign_[pipe], pid) == pid || pid == 0) continue;
    tell("mps.foreign", true, key,
         "another MPS control daemon (process " + std::to_string(pid) + " of uid " + std::to_string(found->uid) +
             ", at " + printable(pipe, 108) + ") may serve GPU " + describe(key) + " too; it is left alone");
  }
}

Result<Manager::Group*> Manager::group_for(const GroupKey& key) {
  if (const auto known = groups_.find(key); known != groups_.end()) return &known->second;
  Group group;
  group.note.key = key;
  group.places = TRY(places_of(options_.base, key));
  group.log = ServerLog(group.places.log);
  if (const auto foreign = daemon_at(group.places.pipe, options_.proc))
    return fail(ErrorCode::conflict,
                "MPS setup: control daemon " + std::to_string(foreign->mark.pid) + " at " + group.places.pipe +
                    " was not started by headgated",
                "stop it: echo quit | CUDA_MPS_PIPE_DIRECTORY=" + group.places.pipe + " " + options_.tool);
  tell_foreign(key);
  return &groups_.emplace(key, std::move(group)).first->second;
}

Result<Variables> Manager::acquire(const Tenant& tenant) {
  if (auto sound = check(tenant.settings); !sound) return std::unexpected(sound.error());
  Group& group = *TRY(group_for(tenant.group));
  auto& holders = group.note.holders;
  const auto known = std::ranges::find(holders, tenant.holder.process, &Holder::process);
  if (known != holders.end() && is_running(group)) return variables_of(tenant, group.places);
  if (std::ranges::count_if(holders, &Holder::is_program) >= static_cast<std::ptrdiff_t>(kMaxClients))
    return fail(ErrorCode::no_capacity,
                "GPU " + describe(tenant.group) + ": MPS has " + std::to_string(kMaxClients) +
                    " clients there, and takes no more",
                "end one of them first");
  if (known == holders.end()) holders.push_back(tenant.holder);
  auto running = run(group, tenant.settings);
  if (running) return variables_of(tenant, group.places);
  std::erase_if(holders, [&](const Holder& holder) { return holder.process == tenant.holder.process; });
  if (holders.empty()) stop(tenant.group);
  else if (auto saved = save(); !saved) tell("mps.failed", true, tenant.group, whole_text(saved.error()));
  return std::unexpected(running.error());
}

// Returns whether its control daemon lives; reports one that has ended.
bool Manager::is_running(Group& group) const {
  if (group.daemon.pidfd && !identity::has_ended(group.daemon.pidfd.get())) return true;
  if (group.daemon.pidfd)
    tell("mps.died", true, group.note.key,
         "GPU " + describe(group.note.key) + ": control daemon " + std::to_string(group.daemon.mark.pid) +
             " has ended; its clients were " + list_of(group.clients));
  group.daemon = {};
  return false;
}

Result<void> Manager::run(Group& group, const Settings& settings) {
  const bool runs = is_running(group), has_others = group.note.holders.size() > 1;
  const Settings before = group.note.settings;
  group.note.settings = runs || has_others ? widest(before, settings) : settings;
  if (!runs) {
    // start() also saves the note, which names a daemon if the group ran before.
    auto started = has_others || group.note.daemon.pid != 0 ? restart(group) : start(group);
    if (!started) group.note.settings = before;
    return started;
  }
  if (auto saved = save(); !saved) return saved;
  if (group.note.settings == before) return {};
  auto done = set_again(group);
  if (done) return {};
  if (done.error().code == ErrorCode::unreachable) {
    not_answered(group, done.error());
    // Of another daemon, or of this one, which was only slow or could not be killed.
    if (group.daemon.pidfd) done = set_again(group);
    if (done) return {};
  }
  group.note.settings = before;
  return done;
}

// Sets the values again on a running daemon and its servers.
Result<void> Manager::set_again(const Group& group) const {
  const Tool tool = tool_of(group);
  return tool.set(group.note.settings, TRY(tool.servers()));
}

// Starts the daemon with the settings in its note. After an error none runs: without its limits it must serve no client.
Result<void> Manager::start(Group& group) {
  group.note.daemon = {};
  if (auto saved = save(); !saved) return saved;
  group.log.skip();
  const auto users = group.note.key.is_for_all() ? ServerUsers::all : ServerUsers::one;
  group.daemon = TRY(start_daemon(tool_of(group), users, options_.base, options_.proc));
  options_.step();
  group.note.daemon = group.daemon.mark;
  auto done = save();
  if (done) done = tool_of(group).set(group.note.settings);
  if (!done) {
    (void)kill_daemon(group.daemon, ItsServers::kill, options_.proc);
    group.daemon = {};
    return done;
  }
  group.failing = false;
  options_.step();
  tell("mps.started", false, group.note.key,
       "GPU " + describe(group.note.key) + ": control daemon " + std::to_string(group.daemon.mark.pid) + " started");
  return {};
}

std::vector<GroupKey> Manager::release(const ProcessMark& process) {
  std::vector<GroupKey> concerned, empty;
  bool changed = false;
  for (auto& [key, group] : groups_) {
    const bool held =
        std::erase_if(group.note.holders, [&](const Holder& holder) { return holder.process == process; }) > 0;
    if (held || group.note.daemon == process) concerned.push_back(key);
    if (!held) continue;
    changed = true;
    if (group.note.holders.empty()) empty.push_back(key);
  }
  if (!changed) return concerned;
  if (auto saved = save(); !saved) tell("mps.failed", true, concerned.front(), whole_text(saved.error()));
  for (const GroupKey& key : empty) stop(key);
  return concerned;
}

void Manager::stop(const GroupKey& key) {
  Group& group = groups_.at(key);
  read_log(group);
  if (group.daemon.pidfd) {
    options_.step();
    const auto stopped = stop_daemon(tool_of(group), group.daemon, options_.proc);
    options_.step();
    const std::string name = "GPU " + describe(key) + ": control daemon " + std::to_string(group.daemon.mark.pid);
    if (!stopped) tell("mps.failed", true, key, whole_text(stopped.error()));
    else
      tell("mps.stopped", *stopped, key,
           name + (*stopped ? " did not quit in time and was killed" : " stopped after its last tenant"));
  }
  groups_.erase(key);
  if (auto saved = save(); !saved) tell("mps.failed", true, key, whole_text(saved.error()));
}

Result<void> Manager::restart(Group& group) {
  read_log(group);
  if (group.daemon.pidfd) TRY(stop_daemon(tool_of(group), group.daemon, options_.proc));
  group.daemon = {};
  group.state = ServerState::unknown;
  group.server = 0;
  group.servers = 0;
  group.served_uid.reset();
  group.clients.clear();
  group.faulty = false;
  group.fault_clients.clear();
  group.wedged = false;
  group.suspects.clear();
  group.told_former.clear();
  group.looks_left = 0;
  TRY(start(group));
  ++group.restarts;
  return {};
}

Result<bool> Manager::take_off(pid_t client) {
  std::optional<Error> unanswered;
  for (auto& [key, group] : groups_) {
    if (!group.daemon.pidfd) continue;
    const auto server = server_of(group, client);
    if (!server) {
      unanswered = server.error();
      not_answered(group, *unanswered);
    } else if (*server != 0) {
      return take_off(group, *server, client);
    }
  }
  if (unanswered) return std::unexpected(*unanswered);
  return false;
}

Result<pid_t> Manager::server_of(const Group& group, pid_t client) const {
  const Tool tool = tool_of(group);
  for (const pid_t server : TRY(tool.servers())) {
    const auto clients = TRY(tool.clients(server));
    if (std::ranges::find(clients, client) != clients.end()) return server;
  }
  return 0;
}

Result<bool> Manager::take_off(Group& group, pid_t server, pid_t client) {
  const auto done = tool_of(group).terminate(server, client);
  if (done) return true;
  if (done.error().code != ErrorCode::unreachable) {
    tell("mps.failed", true, group.note.key, "GPU " + describe(group.note.key) + ": " + whole_text(done.error()));
    return std::unexpected(done.error());
  }
  tell("mps.wedged", true, group.note.key,
       "GPU " + describe(group.note.key) + ": MPS server " + std::to_string(server) + " does not let client " +
           std::to_string(client) + " go; the group is restarted; start its programs again too");
  if (auto killed = kill_daemon(group.daemon, ItsServers::kill, options_.proc); !killed) {
    tell("mps.failed", true, group.note.key, whole_text(killed.error()));
    return std::unexpected(killed.error());
  }
  group.daemon = {};
  start_again(group, "its MPS server did not let a client go");
  return fail(ErrorCode::unreachable, "MPS server " + std::to_string(server) + " was wedged",
              "start its programs again");
}

std::vector<ProcessMark> Manager::processes() const {
  std::vector<ProcessMark> all;
  for (const auto& [key, group] : groups_) {
    for (const Holder& holder : group.note.holders) all.push_back(holder.process);
    if (group.daemon.pidfd) all.push_back(group.daemon.mark);
  }
  return all;
}

std::vector<GroupView> Manager::groups() const {
  std::vector<GroupView> all;
  for (const auto& [key, group] : groups_)
    all.push_back({.key = key,
                   .daemon_pid = group.daemon.pidfd ? group.daemon.mark.pid : 0,
                   .settings = group.note.settings,
                   .holders = group.note.holders,
                   .state = group.state,
                   .clients = group.clients,
                   .servers = group.servers,
                   .served_uid = group.served_uid,
                   .restarts = group.restarts});
  return all;
}

}  // namespace headgate::mps
