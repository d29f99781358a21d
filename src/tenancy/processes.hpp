// The processes in the node's shares. Each is held by a pidfd; its slot is given back when it ends or calls exec().
//
// A process enters through its share's socket, or is found in the pages (adopt()): after a restart of the daemon, or if
// it joined by the files. Not thread-safe: all on the loop's one thread. Destroy it after the loop has stopped.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "guest/ledger/slot.hpp"
#include "identity/peer.hpp"
#include "identity/process.hpp"
#include "tenancy/shares.hpp"

namespace headgate::tenancy {

struct TenantProcess {
  std::string share;
  identity::Process process;            // by host pid
  std::uint32_t uid = 0;                // when it connected; if adopted, as of then
  std::optional<std::uint32_t> user{};  // identity::answerable_user(); null: uid
  identity::Identity where;             // container, pod, job, unit
  ledger::Identity seat;                // its identity in its slot
  std::optional<ledger::SlotRef> slot;  // once it has reported it
  bool adopted = false;                 // its seat was found in the pages, not reported on the socket
  bool admitted = false;                // has its seat: adopted, or confirmed after all that were asked agreed
};

class Processes {
 public:
  struct Events {
    std::function<void(const TenantProcess&)> joined;         // let in by the socket, or found in the pages
    std::function<void(const TenantProcess&)> left;           // its slot has already been given back
    std::function<void(const TenantProcess&)> admitted = {};  // has its seat; called once
  };

  // `remains`: draining if another part reads the driver and settles what the dead had; none if their bytes are free at
  // once.
  Processes(boost::asio::any_io_executor executor, Shares& shares, std::string proc, Events events,
            ledger::Remains remains = ledger::Remains::none);

  // Gives back the seats of processes that have since called exec(): the driver has released what the former program
  // held. Checks `most` processes a call, round robin; adopt() does it too.
  void look_for_replaced(std::size_t most);

  // Enters a process that its share's socket let in; replaces the entry of its former program (exec). A seat that it
  // still has is kept, and whether it was adopted. Errors: the loop cannot watch one more descriptor.
  [[nodiscard]] Result<void> enter(TenantProcess process, UniqueFd pidfd);
  // Returns whether it has reported a slot, or was found in one, and still has it.
  [[nodiscard]] bool has_seat(const std::string& share, std::uint32_t pid) const;
  // Returns whether the slot is this process's.
  [[nodiscard]] bool sits(const std::string& share, std::uint32_t pid, ledger::SlotRef slot) const;
  // Notes the slot it claimed; returns false if the slot is not this process's.
  [[nodiscard]] bool seat(const std::string& share, std::uint32_t pid, ledger::SlotRef slot);

  // Looks for the processes of all unknown slots. Gives back the slots of those that are certainly dead or do not have
  // the page mapped, and returns how many. If there is anything to look for, it reads `processes` of /proc and at most
  // kMapsBytes of their maps; later calls continue. A false claim can stand for ever, and the loop must not read all of
  // a large node for it each second. A share with slots repeatedly claimed in the name of another process or of none is
  // accused (LiveShare::accusation). Called once a second.
  std::uint32_t adopt(std::size_t processes = kProcessesOfACall);
  static constexpr std::size_t kProcessesOfACall = 512;  // some 11 ms
  // Per call, and of one share in it. The maps of a CUDA program have some 150 KiB.
  static constexpr std::size_t kMapsBytes = 2u << 20, kMapsBytesOfAShare = 1u << 20;
  static constexpr std::size_t kNamesOfAShare = 64;  // per call

  // Gives back the slots of processes that have ended, even if the loop has not reported their end. Checks at most
  // kMaxAsked slots that are not known yet, counted in `asked`; adopt() handles the others.
  void give_back_dead(const std::string& share, LiveShare& live, std::size_t& asked);
  static constexpr std::size_t kMaxAsked = 256;

  // Slots of a share that may be found in a minute in the name of no process. Those of processes that came by the
  // socket are known, and not counted. Programs that join by the files start more slowly, and leave a slot behind only
  // if killed.
  static constexpr std::size_t kNobodysOfAMinute = 4096;
  static constexpr std::uint64_t kLooksOfAMinute = 60;  // calls of adopt()

  // Forgets the processes of a share that has been removed.
  void forget(const std::string& share);

  [[nodiscard]] std::size_t count_in(const std::string& share) const;
  // Whether it was one of these and has ended, of the last kEndedKept that have: a list of the driver's may be older.
  // `start_time` 0: there is no such process now.
  [[nodiscard]] bool has_ended(std::uint32_t pid, std::uint32_t start_time) const;
  static constexpr std::size_t kEndedKept = 1024;
  void each(const std::function<void(const TenantProcess&)>& visit) const;

 private:
  struct Entry {
    TenantProcess tenant;
    boost::asio::posix::stream_descriptor pidfd;
    std::uint64_t serial;
    std::uint64_t program;  // identity::program_mark() when it entered; 0: unknown
  };
  struct ByName {
    bool operator()(const ledger::Identity& a, const ledger::Identity& b) const;
  };
  // A share's slots without a known process, by the name in them. One process has one slot: several are a lie.
  using Claims = std::map<ledger::Identity, std::vector<ledger::SlotRef>, ByName>;
  using Names = std::map<std::string, std::set<ledger::Identity, ByName>>;  // by share
  // A list answers only for names claimed before it was begun: later claimants need not be in it.
  struct Reading {
    Names names;
    identity::Listing listing;
  };
  struct Read {
    Names names;
    identity::ProcessList list;
  };
  // This minute's claims in the name of no process.
  struct Nobodys {
    std::size_t slots = 0;
    std::map<ledger::Identity, std::uint32_t, ByName> times;
  };
  // What is known about a share's claims.
  struct Doubts {
    ledger::Identity last{};                     // name checked last; during a search, the searched one
    std::optional<identity::MapsSearch> search;  // one at a time: a share costs one descriptor
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> found_false;  // times, by pid and start time
    std::size_t false_claims = 0;
    Nobodys nobodys;
  };
  using Key = std::pair<std::string, std::uint32_t>;  // share, host pid

  void admit(const Key& key);
  void watch(const Key& key, std::uint64_t serial);
  void ended(const Key& key, std::uint64_t serial);
  bool known(const std::string& share, const ledger::Identity& seat) const;
  Claims claims_of(const std::string& share, const ledger::UsagePage& usage) const;
  std::map<std::string, Claims> all_claims();
  void read_on(const std::map<std::string, Claims>& claims, std::size_t processes);
  std::uint32_t look_into(const std::string& share, LiveShare& live, const Claims& claims,
                          const identity::ProcessList& list, std::size_t& bytes);
  void count_nobody(const std::string& share, LiveShare& live, const ledger::Identity& name, std::size_t slots);
  void adopt_process(const std::string& share, const identity::Process& process, const ledger::Identity& seat,
                     ledger::SlotRef slot);

  boost::asio::any_io_executor executor_;
  Shares& shares_;
  std::string proc_;
  Events events_;
  ledger::Remains remains_;
  std::map<Key, std::unique_ptr<Entry>> entries_;
  std::deque<std::pair<std::uint32_t, std::uint32_t>> ended_;  // PIDs and start times, the oldest first
  std::optional<Reading> reading_;                             // while there is a claim
  Read read_;                                                  // the last complete one, until the next is
  std::map<std::string, Doubts> doubts_;                       // by share
  std::string last_looked_into_;                               // share at which a call's bytes ran out
  Key last_asked_;                                             // look_for_replaced() continues after it
  std::uint64_t last_serial_ = 0, looks_ = 0;
};

}  // namespace headgate::tenancy
