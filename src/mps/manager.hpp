// Starts a GPU's control daemon for the first tenant of a group and stops it after the last. Blocks while the tool
// works, so it needs its own thread (Keeper).
//
// Each step is saved before it is taken. If our daemon is killed at any point, the next one knows what runs and for
// which tenants.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "mps/book.hpp"
#include "mps/server_log.hpp"

namespace headgate::mps {

// Maximum number of clients of one GPU's servers since Volta.
inline constexpr std::size_t kMaxClients = 48;

// A tenant's request. `settings` are those of its share.
struct Tenant {
  GroupKey group;
  Settings settings;
  bool low_priority = false;
  Holder holder;
};

// Of the tenant's program, so that it becomes a client there.
[[nodiscard]] Variables variables_of(const Tenant& tenant, const Places& places);

// Something that happened to a group, for the log and events.
struct News {
  std::string kind;  // mps.started, mps.stopped, mps.adopted, mps.foreign, mps.died, mps.fault, mps.wedged, ...
  bool trouble = false;
  GroupKey group;
  std::string text;
  // Of one tenant, whose user it is for too; 0: none.
  std::string share = {};
  std::uint32_t pid = 0, uid = 0;
};

struct GroupView {
  GroupKey key;
  std::uint32_t daemon_pid = 0;
  Settings settings;
  std::vector<Holder> holders;
  ServerState state = ServerState::unknown;  // as last reported by the tool or logged; unknown also without a server
  std::vector<pid_t> clients;                // as last reported by the tool
  std::size_t servers = 0;                   // as last reported by the tool
  // The user whose clients have the server, so that other users' programs wait; nothing if none would wait.
  std::optional<std::uint32_t> served_uid = {};
  std::uint64_t restarts = 0;  // since this daemon or the group began
};

class Manager {
 public:
  struct Options {
    std::string tool = "nvidia-cuda-mps-control";
    std::string base;                                              // directory of all groups
    std::string file;                                              // file of the notes
    std::vector<std::string> foreign_pipes = {"/tmp/nvidia-mps"};  // where other users may run a daemon
    std::string proc = "/proc";
    Limits limits;
    bool multi_user = false;  // asked for; whether it works is found out by adopt()
    std::function<void(const News&)> tell;
    std::function<void()> step = [] {};  // called before and after each step; tests end the process in it
  };
  explicit Manager(Options options) : options_(std::move(options)) {}

  // Repairs the state after our daemon was killed: takes over control daemons if the socket's peer is the noted
  // process, keeps living tenants, and stops groups without tenants. Then finds out whether multi-user mode works, if
  // it is asked for. Errors: those of reading the file; then nothing is changed.
  [[nodiscard]] Result<void> adopt();
  // Returns true if groups for all users (kAllUsers) can be started.
  [[nodiscard]] bool has_multi_user() const { return has_multi_user_; }

  // Returns the variables that make the tenant's program a client. Errors: usage (settings, a path that is too long),
  // no_capacity (a 49th client), conflict (a foreign control daemon uses the pipe directory), those of make_places()
  // and Tool. After an error the tenant and any daemon started only for it are gone.
  [[nodiscard]] Result<Variables> acquire(const Tenant& tenant);
  // Releases a process that has ended. After the last one of a group, stops its daemon. Returns the groups that it held
  // or whose control daemon it was.
  std::vector<GroupKey> release(const ProcessMark& process);
  // Returns the processes that hold any group, and the control daemons.
  [[nodiscard]] std::vector<ProcessMark> processes() const;

  // Detaches a client from its server, so that ending it does not harm other clients. Returns true if it was a client.
  // Errors: unreachable if its server is wedged; the group has then been restarted.
  [[nodiscard]] Result<bool> take_off(pid_t client);

  // Checks a group's daemon and servers. Reports problems, and restarts what can be restarted without ending a client.
  void look(const GroupKey& key);
  void look();  // at all groups
  // Returns true if the group should be looked at again soon: it waits for clients of a faulty server to end, its
  // server seems to hang, or its log said something of which the tool may tell more.
  [[nodiscard]] bool is_unsettled(const GroupKey& key) const;

  [[nodiscard]] std::vector<GroupView> groups() const;

 private:
  // Signs of a server that hangs: clients that have ended and are listed (0), or servers with their request that has
  // no answer.
  using Suspects = std::set<std::pair<pid_t, std::uint64_t>>;
  struct Group {
    GroupNote note;
    Places places;
    RunningDaemon daemon;  // pidfd empty: not running
    ServerState state = ServerState::unknown;
    std::vector<pid_t> clients;
    pid_t server = 0;         // last seen; 0 if there are several
    std::size_t servers = 0;  // last seen
    std::uint64_t restarts = 0;
    bool faulty = false, silent = false, failing = false;  // already reported
    std::set<pid_t> fault_clients;                         // that share the fault
    ServerLog log;
    int looks_left = 0;                                   // after unusual words of the log
    std::set<pid_t> told_former;                          // former servers whose fault was reported
    bool wedged = false;                                  // already reported
    Suspects suspects;                                    // of each look since suspect_since
    std::chrono::steady_clock::time_point suspect_since;  // without meaning if there are no suspects
    std::optional<std::uint32_t> served_uid;              // as in GroupView
    std::set<std::uint32_t> told_queued;                  // tenants that wait for another user's clients
  };
  [[nodiscard]] Tool tool_of(const Group& group) const;
  [[nodiscard]] Result<Group*> group_for(const GroupKey& key);
  [[nodiscard]] bool is_running(Group& group) const;
  [[nodiscard]] Result<void> run(Group& group, const Settings& settings);
  [[nodiscard]] Result<void> start(Group& group);
  [[nodiscard]] Result<void> set_again(const Group& group) const;
  [[nodiscard]] Result<void> restart(Group& group);
  void stop(const GroupKey& key);
  [[nodiscard]] Result<pid_t> server_of(const Group& group, pid_t client) const;  // 0: none
  [[nodiscard]] Result<bool> take_off(Group& group, pid_t server, pid_t client);
  void adopt_group(GroupNote note);
  void find_multi_user();
  void look_at(Group& group);
  void read_log(Group& group);
  [[nodiscard]] bool serves(const Group& group, pid_t server) const;
  void note_fault(Group& group, const std::set<pid_t>& clients);
  void tell_former_fault(Group& group, pid_t server, const std::set<pid_t>& clients) const;
  [[nodiscard]] Result<GroupLook> ask(const Group& group) const;
  [[nodiscard]] Suspects suspects_of(const Group& group, const std::vector<pid_t>& servers) const;
  void look_for_wedge(Group& group, const std::vector<pid_t>& servers);
  void tell_queued(Group& group, const std::vector<pid_t>& servers);
  void not_answered(Group& group, const Error& why);
  void start_again(Group& group, const std::string& why);
  void tell_foreign(const GroupKey& key);
  [[nodiscard]] Result<void> save();
  void tell(std::string kind, bool trouble, const GroupKey& group, std::string text) const;

  const Options options_;
  std::map<GroupKey, Group> groups_;
  std::map<std::string, std::uint32_t> told_foreign_;  // PID by pipe directory
  bool has_multi_user_ = false;
};

}  // namespace headgate::mps
