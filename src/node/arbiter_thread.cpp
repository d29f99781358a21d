// What the arbiter's thread does: sleep, look at shares, decide, write gates, wake, and tell the boards.
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "guest/ledger/clock.hpp"
#include "guest/ledger/gate.hpp"
#include "node/arbitration.hpp"

namespace headgate::node {
namespace {

// A share that must ring at its next launch is skipped once it has been idle for so long. That is longer than any turn,
// and than it takes to learn what was held in one. The full scan sees other changes in its pages.
constexpr std::int64_t kAsleepNs = 200'000'000;
constexpr std::int64_t kFullScanNs = 100'000'000;
// A share's contexts get one place on a board in such a time, plus those saved up while there were none. So a program
// with 64 contexts gets all at once, and one that invents new ones costs a thousandth of a core.
constexpr std::int64_t kSeatedNs = 10'000'000;
// A daemon at work calls wake() each second, even for a single share: after a longer gap, it was stopped.
constexpr std::int64_t kProddedNs = 3'000'000'000;
constexpr int kPriority = -10;  // nice(2); the thread takes a hundredth of a core

}  // namespace

// Sleeps until an event, or until it is time to look.
int Arbitration::sleep(std::span<epoll_event> events) const {
  const std::int64_t due_ns = std::min(next_look_ns_, board_times_.due_ns());
  const bool for_good = due_ns == schedule::kNever;
  const std::int64_t left_ns = for_good ? 0 : std::max<std::int64_t>(0, due_ns - ledger::host_ns());
  const timespec left{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
  const int most = static_cast<int>(events.size());
  const int count = ::epoll_pwait2(poll_.get(), events.data(), most, for_good ? nullptr : &left, nullptr);
  if (count >= 0 || errno == EINTR) return count;
  // Linux 5.11 has epoll_pwait2, but a container's seccomp filter may refuse it.
  const int left_ms = static_cast<int>(std::min<std::int64_t>(left_ns / 1'000'000 + 1, 1'000));
  return ::epoll_wait(poll_.get(), events.data(), most, for_good ? -1 : left_ms);
}

void Arbitration::run() {
  ::prctl(PR_SET_NAME, "arbiter");
  ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  // Raise our priority: a tenant we wake must not preempt us before all wake-ups are sent. Go on if that is refused.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kPriority);
  while (!ending_) {
    const bool heard = on_doorbell();
    if (ending_) break;
    const std::scoped_lock lock(members_lock_);
    const std::int64_t start_ns = ledger::host_ns();
    if (!heard && start_ns < next_look_ns_) {
      tell_boards(start_ns);
      continue;
    }
    next_look_ns_ = look(start_ns);
    wake_asked_ns_ = 0;
    const std::int64_t decided_ns = ledger::host_ns();
    figures_.decisions.add(decided_ns - start_ns);
    wake_let_in(decided_ns);
    tell_boards(start_ns);
  }
}

// Waits for the next event; returns false on a timeout. Rings are read under the lock, as a share may be removed
// meanwhile.
bool Arbitration::on_doorbell() {
  std::array<epoll_event, 64> events;
  const int count = sleep(events);
  if (count == 0) return false;
  const std::scoped_lock lock(members_lock_);
  const std::int64_t now_ns = ledger::host_ns();
  for (auto& [name, member] : members_)
    for (int i = 0; i < count; ++i)
      if (events[static_cast<std::size_t>(i)].data.ptr == &member) on_doorbell(member, now_ns);
  return true;
}

void Arbitration::on_doorbell(Member& member, std::int64_t now_ns) {
  const Doorbell::Heard heard = member.bell.hear(now_ns);
  figures_.rings += heard.rings;
  member.rang = true;
  if (heard.memory && asked_) asked_(member.share.name(), ledger::Ring::memory);
  if (heard.reading && asked_) asked_(member.share.name(), ledger::Ring::reading);
  if (member.bell.is_closed()) {
    poll(EPOLL_CTL_DEL, member.bell.descriptor(), 0, member);
  } else if (member.bell.muted_until_ns() != 0) {
    ++figures_.unheard_rings;
    poll(EPOLL_CTL_MOD, member.bell.descriptor(), 0, member);
  }
}

int Arbitration::poll(int operation, int bell, std::uint32_t events, Member& member) const {
  epoll_event event{.events = events, .data = {.ptr = &member}};
  return ::epoll_ctl(poll_.get(), operation, bell, &event);
}

void Arbitration::look_at(Member& member, std::int64_t now_ns) {
  if (member.rang) member.share.list_again();
  member.waits = false;
  bool works = member.rang, told = true, behind_its_gate = false;
  std::uint64_t held_ns = 0;  // unsigned: a tenant may have written anything
  for (schedule::Terms& each : member.terms) {
    if (const schedule::Terms terms = member.share.terms_of(each.gpu); terms != each) {
      each = terms;
      arbiter_.change_share(member.id, {&each, 1});
    }
    const schedule::Use use = member.share.use_of(each.gpu, now_ns);
    arbiter_.observe(member.id, each.gpu, use, now_ns);
    member.waits |= use.wanting;
    works |= use.wanting || use.in_flight_ns > 0;
    held_ns += static_cast<std::uint64_t>(use.held_ns);
    const schedule::Gate gate = member.share.gate(each.gpu);
    told &= gate == schedule::Gate::open_notify || gate == schedule::Gate::shut;
    if (use.in_flight_ns > 0 || !schedule::is_closed(gate)) member.let_in_ns = now_ns;
    behind_its_gate |= use.in_flight_ns > 0 && schedule::is_closed(gate);
  }
  if (works || held_ns != member.held_ns) member.active_ns = now_ns;
  member.held_ns = held_ns;
  member.asleep = told && now_ns - member.active_ns >= kAsleepNs;
  // Also for a share that went on without a heartbeat: with one, it waits for its turn again.
  if (member.waits || member.rang || behind_its_gate) member.share.beat();
  member.rang = false;
}

// Returns when to look again.
std::int64_t Arbitration::look(std::int64_t now_ns) {
  if (looked_ns_ != 0 && now_ns - looked_ns_ > kProddedNs) arbiter_.note_absence();
  looked_ns_ = now_ns;
  return look_for(std::max(now_ns, decided_ns_));
}

// Does the look that is due at that time: now, or at a hand-over that is soon. Skips shares that were not let in at
// `at_work_ns` or later.
std::int64_t Arbitration::look_for(std::int64_t now_ns, std::int64_t at_work_ns) {
  decided_ns_ = now_ns;
  std::int64_t next_ns = schedule::kNever;
  const bool full_scan = now_ns - full_scan_ns_ >= kFullScanNs;
  if (full_scan) full_scan_ns_ = now_ns;
  for (auto& [name, member] : members_) {
    if (const std::int64_t muted_until_ns = member.bell.muted_until_ns(); muted_until_ns > now_ns) {
      next_ns = std::min(next_ns, muted_until_ns);
    } else if (muted_until_ns != 0) {
      member.bell.unmute();
      poll(EPOLL_CTL_MOD, member.bell.descriptor(), EPOLLIN, member);
    }
    if (member.asleep && !member.rang && !member.bell.is_closed() && !full_scan) continue;
    if (member.let_in_ns < at_work_ns) continue;
    look_at(member, now_ns);
    if (member.waits || member.bell.is_closed()) next_ns = std::min(next_ns, now_ns + ledger::kTurnLookNs);
  }
  while (const auto turn = arbiter_.next_turn(looked_ns_)) arbiter_.settle(*turn, idle_ns(*turn, looked_ns_));
  const schedule::Decision decision = arbiter_.decide(now_ns);
  for (const schedule::Change& change : decision.changes) {
    Member* const member = by_id_[change.share];
    if (member == nullptr) continue;
    member->share.write_gate(change.gpu, change.gate, change.batch_ns,
                             change.opens_ns > looked_ns_ ? change.opens_ns : 0);
    if (ledger::lets_in(static_cast<ledger::Gate>(change.gate))) let_in_.emplace_back(&member->share, change.gpu);
    member->asleep = false;
  }
  figures_.gate_writes += decision.changes.size();
  const bool is_soon = decision.wake_at_ns - looked_ns_ <= schedule::kMaxUnwatchedNs && decision.wake_at_ns <= next_ns;
  if (decision.is_hand_over && is_soon) return std::min(next_ns, look_for(decision.wake_at_ns, now_ns));
  for (auto& [name, member] : members_) {
    if (member.id == schedule::kNoShare || (member.asleep && !full_scan)) continue;
    for (const schedule::Terms& each : member.terms) {
      std::atomic<std::int64_t>& kept_ns = member.share.policy_of(each.gpu).virtual_time_ns;
      const std::int64_t virtual_ns = arbiter_.virtual_time_ns(member.id, each.gpu);
      if (kept_ns.load(std::memory_order_relaxed) != virtual_ns) kept_ns.store(virtual_ns, std::memory_order_relaxed);
      member.share.write_behind(each.gpu, ledger::behind_ms(arbiter_.behind_ns(member.id, each.gpu)));
    }
  }
  return std::min(next_ns, decision.wake_at_ns);
}

// Call it after all gates are written: a slow wake-up system call then delays no other share's gate.
void Arbitration::wake_let_in(std::int64_t now_ns) {
  if (let_in_.empty()) return;
  for (const auto& [share, gpu] : let_in_) share->wake_at_gate(gpu);
  let_in_.clear();
  figures_.wakes.add(ledger::host_ns() - now_ns);
}

// Copies new marks to the boards if the last copy is long enough ago.
void Arbitration::tell_boards(std::int64_t now_ns) {
  if (!board_times_.begin(now_ns)) return;
  std::array<std::uint32_t, schedule::kMaxGpus> there{}, at_work{};
  for (auto& [name, member] : members_) {
    if (!member.share.marks() || (member.asleep && !member.on_board)) continue;
    bool on_board = false;
    for (const schedule::Terms& each : member.terms) {
      GpuBoard* const board = boards_.of(each.gpu);
      if (board == nullptr) continue;
      const ledger::GpuPage& marks = member.share.marks_on(each.gpu);
      const bool works = GpuBoard::works(marks, now_ns, ledger::kSeatIdleNs);
      if (works) {
        member.seated_ns = std::max(member.seated_ns, now_ns - ledger::kMaxSeats * kSeatedNs);
        const auto newcomers = static_cast<int>(std::max<std::int64_t>(0, now_ns - member.seated_ns) / kSeatedNs);
        member.seated_ns += board->bring(marks, member.share.policy().generation, now_ns, newcomers) * kSeatedNs;
      } else if (member.on_board) board->forget(member.share.policy().generation);
      on_board |= works;
      ++there[each.gpu];
      at_work[each.gpu] += works;
    }
    member.on_board = on_board;
  }
  for (std::uint32_t g = 0; g < gpus_.size() && g < schedule::kMaxGpus; ++g) {
    if (GpuBoard* const board = boards_.of(g)) board->told(now_ns);
    board_times_.saw(there[g], at_work[g], in_force(g) == schedule::Policy::off);
  }
}

static_assert(decltype(ledger::ComputeAccount::coverage)::kSpanNs > schedule::kKnownNs);

namespace {

// Calls `look` for each word of the coverage that the turn touches, with the bits of it that lie in the turn.
template <typename Look>
void each_word(const schedule::Turn& turn, Look look) {
  for (std::int64_t word = turn.from_ns / ledger::kCoverageWordNs; word * ledger::kCoverageWordNs < turn.to_ns;
       ++word) {
    const std::int64_t from = std::max<std::int64_t>(
        0, (turn.from_ns - word * ledger::kCoverageWordNs + ledger::kCoverageNs - 1) / ledger::kCoverageNs);
    const std::int64_t to =
        std::min(ledger::kCoverageBits,
                 (turn.to_ns - word * ledger::kCoverageWordNs + ledger::kCoverageNs - 1) / ledger::kCoverageNs);
    if (to > from) look(word, ((1ull << to) - 1) & ~((1ull << from) - 1));
  }
}

}  // namespace

// Returns the time of the turn in which no share held the GPU.
std::int64_t Arbitration::idle_ns(const schedule::Turn& turn, std::int64_t now_ns) {
  // Only those that may have worked in it: of eight that contend mostly two. Each costs ten cache lines.
  at_turn_.clear();
  for (auto& [name, member] : members_)
    if (member.let_in_ns >= turn.from_ns && member.share.has(turn.gpu)) at_turn_.push_back({.share = &member.share});
  std::int64_t idle_ns = 0;
  each_word(turn, [&](std::int64_t word, std::uint64_t within) {
    std::uint64_t once = 0, twice = 0;
    for (AtTurn& at : at_turn_) {
      at.held = at.share->held_in(turn.gpu, word) & within;
      twice |= once & at.held;
      once |= at.held;
    }
    for (AtTurn& at : at_turn_) at.alone_ns += std::popcount(at.held & ~twice) * ledger::kCoverageNs;
    idle_ns += std::popcount(~once & within) * ledger::kCoverageNs;
  });
  for (const AtTurn& at : at_turn_)
    if (!at.share->is_supported_by_account(turn.gpu, at.alone_ns, now_ns)) idle_ns += at.alone_ns;
  return idle_ns;
}

}  // namespace headgate::node
