// The processes in the node's shares, each held by a pidfd: its death, and nothing else, gives its slot back.
//
// A process comes in by its share's socket, or is found in the pages (adopt()): after a restart of the daemon, or where
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
#include "identity/maps.hpp"
#include "identity/peer.hpp"
#include "identity/process.hpp"
#include "tenancy/shares.hpp"

namespace headgate::tenancy {

struct TenantProcess {
  std::string share;
  identity::Process process;            // by host pid
  std::uint32_t uid = 0;                // when it connected, or now where it was adopted
  std::optional<std::uint32_t> user{};  // identity::answerable_user() of it; null: itself
  identity::Identity where;             // container, pod, job, unit
  ledger::Identity seat;                // how it calls itself in its slot
  std::optional<ledger::SlotRef> slot;  // once it has told which
  bool adopted = false;                 // its seat was found in the pages, and never told on the socket
  bool admitted = false;                // it has its seat: adopted, or confirmed after all who were asked agreed
};

class Processes {
 public:
  struct Events {
    std::function<void(const TenantProcess&)> joined;         // let in by the socket, or found in the pages
    std::function<void(const TenantProcess&)> left;           // its slot has been given back already
    std::function<void(const TenantProcess&)> admitted = {};  // has its seat, told once
  };

  // `remains`: draining, where somebody looks at the driver and settles what the dead had; none, where their bytes are
  // free at once.
  Processes(boost::asio::any_io_executor executor, Shares& shares, std::string proc, Events events,
            ledger::Remains remains = ledger::Remains::none);

  // Gives back the seats of processes that have called exec() since: the driver has taken down what the program before
  // held. `most` processes at a call, each in its turn; adopt() does it too.
  void look_for_replaced(std::size_t most);

  // A process that its share's socket let in; replaces what an earlier program of the same process was (exec). A seat
  // that it still has is kept, with how that was found. Errors: of the loop, which cannot watch one more descriptor.
  [[nodiscard]] Result<void> enter(TenantProcess process, UniqueFd pidfd);
  // Whether it has told of a slot, or was found in one, and has it still.
  [[nodiscard]] bool has_seat(const std::string& share, std::uint32_t pid) const;
  // Whether the slot is this process's.
  [[nodiscard]] bool sits(const std::string& share, std::uint32_t pid, ledger::SlotRef slot) const;
  // The slot it claimed; false where the slot is not this process's.
  [[nodiscard]] bool seat(const std::string& share, std::uint32_t pid, ledger::SlotRef slot);

  // Looks for the processes of all slots that are not known yet; gives back the slots of those that are certainly dead,
  // or do not have the page mapped. Answers how many slots were given back. Where there is anything to look for, it
  // reads `processes` of /proc, and of their maps no more than kMapsBytes, the rest at the next calls: a claim that
  // says nothing true can stand for ever, and the loop must not read all of a large node for it each second. A share
  // whose slots are claimed in false names again and again, in another process's or in nobody's, is accused
  // (LiveShare::accusation). Called once a second.
  std::uint32_t adopt(std::size_t processes = kProcessesOfACall);
  static constexpr std::size_t kProcessesOfACall = 512;  // some 11 ms
  // Of a call, and of one share in it. A program with CUDA in it has some 150 KiB.
  static constexpr std::size_t kMapsBytes = 2u << 20, kMapsBytesOfAShare = 1u << 20;
  static constexpr std::size_t kNamesOfAShare = 64;  // in a call

  // Gives back the slots of those that have ended by now, also of those whose end the loop has not told yet. Of slots
  // that are not known yet kMaxAsked are asked about, counted in `asked`: adopt() comes to the others.
  void give_back_dead(const std::string& share, LiveShare& live, std::size_t& asked);
  static constexpr std::size_t kMaxAsked = 256;

  // Slots of a share that may be found in a minute in the name of no process. Who came by the socket is known, and his
  // are not counted; programs that join by the files do not start so fast, and leave a slot behind only where they are
  // killed.
  static constexpr std::size_t kNobodysOfAMinute = 4096;
  static constexpr std::uint64_t kLooksOfAMinute = 60;  // calls of adopt()

  // Forgets a share's processes: it has been removed.
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
    std::uint64_t program;  // identity::program_mark() when it was let in; 0: not told
  };
  struct ByName {
    bool operator()(const ledger::Identity& a, const ledger::Identity& b) const;
  };
  // Slots of a share that nobody known sits in, by whose name is on them. One process, one slot: more are a lie.
  using Claims = std::map<ledger::Identity, std::vector<ledger::SlotRef>, ByName>;
  using Names = std::map<std::string, std::set<ledger::Identity, ByName>>;  // by share
  // A list answers for the names that were claimed before it was begun: who claims later need not be in it.
  struct Reading {
    Names names;
    identity::Listing listing;
  };
  struct Read {
    Names names;
    identity::ProcessList list;
  };
  // Claims in the name of no process, in this minute.
  struct Nobodys {
    std::size_t slots = 0;
    std::map<ledger::Identity, std::uint32_t, ByName> times;
  };
  // What a share's claims are worth.
  struct Doubts {
    ledger::Identity last{};                     // name that was looked at; while there is a search, the one that is
    std::optional<identity::MapsSearch> search;  // one at a time, so that a share holds one descriptor
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
  std::deque<std::pair<std::uint32_t, std::uint32_t>> ended_;  // pids and start times, the oldest first
  std::optional<Reading> reading_;                             // while there is a claim
  Read read_;                                                  // the last that came to its end, until the next does
  std::map<std::string, Doubts> doubts_;                       // by share
  std::string last_looked_into_;                               // share at which the bytes of a call were used up
  Key last_asked_;                                             // look_for_replaced() goes on behind it
  std::uint64_t last_serial_ = 0, looks_ = 0;
};

}  // namespace headgate::tenancy
