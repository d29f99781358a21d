// Runs the arbiter on a node: a thread that waits for the shares' doorbells, reads what their limiters report, asks
// schedule::Arbiter, and writes the gates. It sleeps while no share waits for another.
//
// The heartbeat of a share moves while one of its launches waits for a turn, and at each ring. When the thread ends
// normally, all gates stand open. If it is killed they stay as they are, and limiters follow the dead-man rule
// (guest/ledger/gate.hpp).
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "guest/ledger/registration.hpp"
#include "node/arbitrated_share.hpp"
#include "node/gpu_board.hpp"

namespace headgate::node {

// Parses fair, priority or off. Errors: usage.
[[nodiscard]] Result<schedule::Policy> parse_policy(const std::string& text);
[[nodiscard]] std::string policy_word(schedule::Policy policy);

class Arbitration {
 public:
  // A histogram of durations.
  struct Times {
    static constexpr std::array<std::int64_t, 8> kBoundsNs = {5'000,   10'000,  20'000,  50'000,
                                                              100'000, 200'000, 500'000, 1'000'000};
    std::uint64_t count = 0, sum_ns = 0;
    // How many took at most kBoundsNs[i] and more than the bound before; the last: longer than all.
    std::array<std::uint64_t, kBoundsNs.size() + 1> took{};

    void add(std::int64_t ns);
  };
  struct Figures {
    Times decisions;  // reading the pages, deciding, writing the gates
    Times wakes;      // after a decision that lets shares in: until the last wake-up call returned
    std::uint64_t gate_writes = 0;
    std::uint64_t rings = 0;
    std::uint64_t unheard_rings = 0;  // times that a share's bell was muted because it rang too often
  };

  // `gpus`: UUIDs of the node's GPUs. The first schedule::kMaxGpus are arbitrated; the gates of the others stand open.
  // `asked` is called on the arbiter's thread for rings that mean something other than a waiting launch, at most 1,000
  // times a second for each share and kind. It must neither wait nor call back. May be empty.
  using Asked = std::function<void(const std::string& share, ledger::Ring what)>;
  explicit Arbitration(std::vector<std::string> gpus, Asked asked = {});
  ~Arbitration();
  Arbitration(const Arbitration&) = delete;
  Arbitration& operator=(const Arbitration&) = delete;

  // Errors: of the system.
  [[nodiscard]] Result<void> start();
  void stop();

  // All functions below are thread-safe and take effect at once.
  // Adds a share with its pages in RUNTIME/shares/NAME; replaces one of that name. `bell`: our end of its doorbell.
  [[nodiscard]] Result<void> add(const std::string& runtime_dir, const std::string& share, const std::string& gang,
                                 UniqueFd bell);
  void remove(const std::string& share);
  // Returns shares that ring in vain: a tenant shut down the bell that all of them hold, or sent descriptors.
  // listen_by() sets our end of another bell for one of them. Errors: of the system.
  [[nodiscard]] std::vector<std::string> doorbell_closed() const;
  [[nodiscard]] Result<void> listen_by(const std::string& share, UniqueFd bell);
  // Returns the descriptors of the boards for a limiter of the share, in the order of guest/ledger/registration.hpp:
  // the share's pages to mark, then the boards of its devices up to the first that has none. They stay open as long as
  // the share is here.
  [[nodiscard]] std::vector<int> board_descriptors(const std::string& share);
  // `gpu`: its number in the constructor's list.
  void set_policy(std::uint32_t gpu, schedule::Policy policy);
  [[nodiscard]] schedule::Policy policy(std::uint32_t gpu) const;  // off where the GPU is not arbitrated
  // While programs without turns are there (gpu_policies.hpp), the policy in force is off; policy() stays.
  void set_without_turns(std::uint32_t gpu, bool without_turns);
  [[nodiscard]] schedule::Policy policy_in_force(std::uint32_t gpu) const;
  [[nodiscard]] const std::vector<std::string>& gpus() const { return gpus_; }
  // Returns how long in all the share has wanted the GPU since it was added here, in ns (Arbiter::wanted_ns). 0 for an
  // unknown share or GPU.
  [[nodiscard]] std::int64_t wanted_ns(const std::string& share, std::uint32_t gpu) const;
  [[nodiscard]] Figures figures() const;
  // wake() makes the thread look again. silence_ns(): how long such a request has waited; 0: none. Neither blocks.
  void wake();
  [[nodiscard]] std::int64_t silence_ns() const;

 private:
  struct Member {
    ArbitratedShare share;
    Doorbell bell;
    std::vector<schedule::Terms> terms;
    schedule::ShareId id = schedule::kNoShare;  // kNoShare: not arbitrated, only its bell is heard
    bool rang = false;
    bool asleep = false, waits = false;
    std::int64_t active_ns = 0;  // when it was last seen at work
    std::int64_t let_in_ns = 0;  // when it last had work in flight or a gate that let it in
    std::uint64_t held_ns = 0;   // GPU time held until then
    bool on_board = false;       // of some GPU
    std::int64_t seated_ns = 0;  // until when the places of its contexts on boards are paid for
  };

  void enter(Member& member, const std::string& gang);
  void run();
  bool on_doorbell();
  void on_doorbell(Member& member, std::int64_t now_ns);
  // Adds, changes or removes the member's bell among what the thread waits for. As epoll_ctl(2).
  int poll(int operation, int bell, std::uint32_t events, Member& member) const;
  std::int64_t look(std::int64_t now_ns);
  std::int64_t look_for(std::int64_t now_ns, std::int64_t at_work_ns = 0);
  void look_at(Member& member, std::int64_t now_ns);
  std::int64_t idle_ns(const schedule::Turn& turn, std::int64_t now_ns);
  void wake_let_in(std::int64_t now_ns);
  void tell_boards(std::int64_t now_ns);
  void apply_policy(std::uint32_t gpu);
  [[nodiscard]] schedule::Policy in_force(std::uint32_t gpu) const {
    return without_turns_[gpu] ? schedule::Policy::off : policies_[gpu];
  }
  void wake_thread();
  int sleep(std::span<epoll_event> events) const;

  const std::vector<std::string> gpus_;
  const Asked asked_;
  UniqueFd poll_, wake_;
  std::int64_t next_look_ns_ = 0, full_scan_ns_ = 0, looked_ns_ = 0;
  std::int64_t decided_ns_ = 0;      // the latest time for which it was decided; may be a little later than now
  mutable std::mutex members_lock_;  // guards all below it except atomics
  schedule::Arbiter arbiter_;
  std::array<schedule::Policy, schedule::kMaxGpus> policies_{};
  std::array<bool, schedule::kMaxGpus> without_turns_{};
  std::map<std::string, Member> members_;
  std::vector<Member*> by_id_;
  std::vector<std::pair<ArbitratedShare*, std::uint32_t>> let_in_;  // let in by the last look, and on which GPU
  // Used by idle_ns() only; kept for its memory.
  struct AtTurn {
    ArbitratedShare* share;
    std::uint64_t held = 0;  // in one word
    std::int64_t alone_ns = 0;
  };
  std::vector<AtTurn> at_turn_;
  GpuBoards boards_;
  BoardTimes board_times_;
  Figures figures_;
  std::atomic<bool> ending_{false};
  std::atomic<std::int64_t> wake_asked_ns_{0};  // the oldest request without a look since; 0: none
  std::thread thread_;
};

}  // namespace headgate::node
