// Starts a GPU's control daemon for the first tenant of a group and stops it after the last. Blocks while the tool
// works: for one thread, that of Keeper.
//
// Each step is noted on disk before it is taken, so a daemon of ours that is killed anywhere is followed by one that
// knows what runs and for whom.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "mps/book.hpp"

namespace headgate::mps {

// Clients of one GPU's servers from Volta on.
inline constexpr std::size_t kMaxClients = 48;

// What a tenant asks for. `settings` are those of its share.
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
};

struct GroupView {
  GroupKey key;
  std::uint32_t daemon_pid = 0;
  Settings settings;
  std::vector<Holder> holders;
  ServerState state = ServerState::unknown;  // as the tool said last; unknown also while there is no server
  std::vector<pid_t> clients;                // as the tool said last
};

class Manager {
 public:
  struct Options {
    std::string tool = "nvidia-cuda-mps-control";
    std::string base;                                              // directory of all groups
    std::string file;                                              // what is noted
    std::vector<std::string> foreign_pipes = {"/tmp/nvidia-mps"};  // where others may have a daemon
    std::string proc = "/proc";
    Limits limits;
    std::function<void(const News&)> tell;
    std::function<void()> step = [] {};  // called before and after each step; tests end the process in it
  };
  explicit Manager(Options options) : options_(std::move(options)) {}

  // Puts right what a killed daemon of ours left: its control daemons are taken over if the socket's peer is the
  // process that was noted, the tenants that live still count, and groups without tenants are stopped. Errors: of
  // reading the file; then nothing is touched.
  [[nodiscard]] Result<void> adopt();

  // Variables that make the tenant's program a client. Errors: usage (settings, a path that is too long), no_capacity
  // (a 49th client), conflict (a control daemon that is not ours has the pipe directory), those of make_places() and
  // Tool. After an error nothing is left of the tenant, and no daemon that was started for it alone.
  [[nodiscard]] Result<Variables> acquire(const Tenant& tenant);
  // The process has ended. Where it was the last of a group, its daemon is stopped.
  void release(const ProcessMark& process);
  // Whether any process of this number holds a group.
  [[nodiscard]] std::vector<ProcessMark> holders() const;

  // Takes a client off its server, so that it can be ended without harm to its neighbours. True: it was one. Errors:
  // unreachable, where its server is wedged: the group has been restarted.
  [[nodiscard]] Result<bool> take_off(pid_t client);

  // Looks whether daemons and servers are well; what is not is told, and restarted where no client would be ended by
  // that.
  void look();
  // Whether a group waits for its last client to go, to be restarted.
  [[nodiscard]] bool is_recovering() const;

  [[nodiscard]] std::vector<GroupView> groups() const;

 private:
  struct Group {
    GroupNote note;
    Places places;
    RunningDaemon daemon;  // pidfd empty: none runs
    ServerState state = ServerState::unknown;
    std::vector<pid_t> clients;
    pid_t server = 0;                     // seen last, of several none
    bool faulty = false, silent = false;  // was told
    std::set<std::uint32_t> told_queued;  // tenants that wait behind another user's
  };
  [[nodiscard]] Tool tool_of(const Group& group) const;
  [[nodiscard]] Result<Group*> group_for(const GroupKey& key);
  [[nodiscard]] Result<void> run(Group& group, const Settings& settings);
  [[nodiscard]] Result<void> start(Group& group);
  [[nodiscard]] Result<void> set_again(const Group& group) const;
  [[nodiscard]] Result<void> restart(Group& group);
  void stop(const GroupKey& key);
  void adopt_group(GroupNote note);
  void look_at(Group& group);
  void tell_queued(Group& group, const std::vector<pid_t>& servers);
  void not_answered(Group& group, const Error& why);
  void start_again(Group& group, const std::string& why);
  void tell_foreign(const GroupKey& key);
  [[nodiscard]] Result<void> save();
  void tell(std::string kind, bool trouble, const GroupKey& group, std::string text) const;

  const Options options_;
  std::map<GroupKey, Group> groups_;
  std::map<std::string, std::uint32_t> told_foreign_;  // pid by pipe directory
};

}  // namespace headgate::mps
