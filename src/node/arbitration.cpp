#include "node/arbitration.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/untrusted_socket.hpp"
#include "guest/ledger/clock.hpp"
#include "guest/ledger/gate.hpp"
#include "guest/ledger/registration.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {
namespace {

// A tenant can ring as often as it likes, so each share pays for its rings with its unused part of the last 10 ms; then
// it is not heard for a while. 2,000 rings a second, each heard alone, take three fifths of that. A flood is heard once
// in 1 ms; single rings 3,300 times a second, at some 10 us each.
constexpr std::int64_t kHearNs = 250'000, kRingNs = 48'000, kCreditNs = 10'000'000, kMinPauseNs = 1'000'000;
// Cost of a message that no limiter sends: longer than a byte.
constexpr std::int64_t kStrangeNs = 1'000'000;
// A request that is handed on costs other threads time, too.
constexpr std::int64_t kHandedOnNs = 750'000;
// Each takes two system calls (receive_bytes()); the rest stays in the socket for the next time.
constexpr std::size_t kMaxHeardAtOnce = 16;
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

// The pages' clock: limiters may be in time namespaces, and so may we.
std::int64_t now() { return ledger::host_ns(); }

}  // namespace

std::string policy_word(schedule::Policy policy) {
  switch (policy) {
    case schedule::Policy::fair: return "fair";
    case schedule::Policy::priority: return "priority";
    case schedule::Policy::off: return "off";
  }
  return "unknown";
}

Result<schedule::Policy> parse_policy(const std::string& text) {
  using enum schedule::Policy;
  for (const schedule::Policy each : {fair, priority, off})
    if (text == policy_word(each)) return each;
  return fail(ErrorCode::usage, "policy '" + tenancy::escape_untrusted(text) + "' is not understood",
              "accepted: fair, priority, off");
}

void Arbitration::Times::add(std::int64_t ns) {
  ++count;
  sum_ns += static_cast<std::uint64_t>(ns);
  ++took[static_cast<std::size_t>(std::ranges::lower_bound(kBoundsNs, ns) - kBoundsNs.begin())];
}

Arbitration::Arbitration(std::vector<std::string> gpus, Asked asked)
    : gpus_(std::move(gpus)),
      asked_(std::move(asked)),
      arbiter_(static_cast<std::uint32_t>(std::min<std::size_t>(gpus_.size(), schedule::kMaxGpus))),
      boards_(gpus_) {}

Arbitration::~Arbitration() { stop(); }

Result<void> Arbitration::start() {
  poll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  // Edge-triggered: each write is reported once, so it is never read.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.ptr = nullptr}};
  if (!poll_ || !wake_ || ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0)
    return fail_errno("the arbiter's descriptors", errno);
  thread_ = std::thread([this] { run(); });
  return {};
}

void Arbitration::stop() {
  if (!thread_.joinable()) return;
  ending_ = true;
  wake_thread();
  thread_.join();
  const std::scoped_lock lock(members_lock_);
  for (auto& [name, member] : members_)
    for (const schedule::Terms& terms : member.terms) member.share.set_gate(terms.gpu, schedule::Gate::open, 0);
}

Result<void> Arbitration::add(const std::string& runtime_dir, const std::string& name, const std::string& gang,
                              UniqueFd bell) {
  ArbitratedShare opened = TRY(ArbitratedShare::open(runtime_dir, name, gpus_, std::move(bell)));
  remove(name);
  const std::scoped_lock lock(members_lock_);
  auto terms = opened.terms();
  Member& member =
      members_.emplace(name, Member{std::move(opened), schedule::kNoShare, std::move(terms)}).first->second;
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &member}};
  const int heard = member.share.bell();
  if (heard >= 0 && ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, heard, &event) != 0) {
    const int error = errno;
    members_.erase(name);
    return fail_errno("listening to the doorbell of share '" + name + "'", error);
  }
  if (!member.terms.empty()) enter(member, gang);
  wake_thread();
  return {};
}

// Call it under the lock.
void Arbitration::enter(Member& member, const std::string& gang) {
  std::vector<std::int64_t> virtual_times_ns;
  for (const schedule::Terms& each : member.terms) virtual_times_ns.push_back(member.share.virtual_time_ns(each.gpu));
  member.virtual_times_ns = virtual_times_ns;
  const schedule::ShareId id =
      arbiter_.add_share({.gpus = member.terms, .gang = gang, .virtual_times_ns = std::move(virtual_times_ns)});
  member.id = id;
  if (by_id_.size() <= id) by_id_.resize(id + 1);
  by_id_[id] = &member;
  for (const schedule::Terms& each : member.terms) {
    const bool decided = in_force(each.gpu) != schedule::Policy::off;
    if (decided && !member.share.was_arbitrated(each.gpu))
      member.share.set_gate(each.gpu, schedule::Gate::open_notify, 0);
    // What was held before is already in the virtual time, or was never counted.
    arbiter_.adopt(id, each.gpu, member.share.use_of(each.gpu, now()), member.share.gate(each.gpu));
    member.share.set_arbitrated(each.gpu, decided);
  }
  member.share.beat();
}

void Arbitration::remove(const std::string& name) {
  const std::scoped_lock lock(members_lock_);
  const auto found = members_.find(name);
  if (found == members_.end()) return;
  if (found->second.share.bell() >= 0) ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, found->second.share.bell(), nullptr);
  for (const schedule::Terms& terms : found->second.terms)
    if (GpuBoard* const board = boards_.of(terms.gpu)) board->forget(found->second.share.generation());
  if (found->second.id != schedule::kNoShare) {
    arbiter_.remove_share(found->second.id);
    by_id_[found->second.id] = nullptr;
  }
  members_.erase(found);
  wake_thread();
}

std::vector<std::string> Arbitration::doorbell_closed() const {
  const std::scoped_lock lock(members_lock_);
  std::vector<std::string> names;
  for (const auto& [name, member] : members_)
    if (member.doorbell_closed) names.push_back(name);
  return names;
}

Result<void> Arbitration::listen_by(const std::string& name, UniqueFd bell) {
  const std::scoped_lock lock(members_lock_);
  const auto found = members_.find(name);
  if (found == members_.end()) return {};
  Member& member = found->second;
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &member}};
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, bell.get(), &event) != 0)
    return fail_errno("listening to the doorbell of share '" + name + "'", errno);
  if (!member.doorbell_closed) ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, member.share.bell(), nullptr);
  member.share.set_bell(std::move(bell));
  member.doorbell_closed = false;
  return {};
}

std::vector<int> Arbitration::board_descriptors(const std::string& name) {
  const std::scoped_lock lock(members_lock_);
  const auto found = members_.find(name);
  if (found == members_.end() || found->second.id == schedule::kNoShare || !found->second.share.make_marks()) return {};
  wake_thread();
  std::vector<int> all{found->second.share.marks().descriptor()};
  for (const std::uint32_t gpu : found->second.share.gpus()) {
    const int board = gpu < schedule::kMaxGpus ? boards_.descriptor(gpu) : -1;
    if (board < 0) break;
    all.push_back(board);
  }
  return all;
}

void Arbitration::set_policy(std::uint32_t gpu, schedule::Policy policy) {
  if (gpu >= schedule::kMaxGpus) return;
  const std::scoped_lock lock(members_lock_);
  policies_[gpu] = policy;
  apply_policy(gpu);
}

void Arbitration::set_without_turns(std::uint32_t gpu, bool without_turns) {
  if (gpu >= schedule::kMaxGpus) return;
  const std::scoped_lock lock(members_lock_);
  without_turns_[gpu] = without_turns;
  apply_policy(gpu);
}

// Call it under the lock.
void Arbitration::apply_policy(std::uint32_t gpu) {
  const schedule::Policy policy = in_force(gpu);
  arbiter_.set_policy(gpu, policy);
  for (auto& [name, member] : members_)
    if (member.share.has(gpu)) {
      member.share.set_arbitrated(gpu, policy != schedule::Policy::off);
      member.asleep = false;
    }
  wake_thread();
}

schedule::Policy Arbitration::policy(std::uint32_t gpu) const {
  const std::scoped_lock lock(members_lock_);
  return gpu < schedule::kMaxGpus ? policies_[gpu] : schedule::Policy::off;
}

schedule::Policy Arbitration::policy_in_force(std::uint32_t gpu) const {
  const std::scoped_lock lock(members_lock_);
  return gpu < schedule::kMaxGpus ? in_force(gpu) : schedule::Policy::off;
}

std::int64_t Arbitration::wanted_ns(const std::string& share, std::uint32_t gpu) const {
  const std::scoped_lock lock(members_lock_);
  const auto found = members_.find(share);
  const bool decided = found != members_.end() && found->second.id != schedule::kNoShare;
  return decided ? arbiter_.wanted_ns(found->second.id, gpu) : 0;
}

Arbitration::Figures Arbitration::figures() const {
  const std::scoped_lock lock(members_lock_);
  return figures_;
}

void Arbitration::wake_thread() {
  const std::uint64_t one = 1;
  if (wake_) (void)!::write(wake_.get(), &one, sizeof one);
}

void Arbitration::wake() {
  std::int64_t none = 0;
  wake_asked_ns_.compare_exchange_strong(none, now());
  wake_thread();
}

std::int64_t Arbitration::silence_ns() const {
  const std::int64_t wake_asked_ns = wake_asked_ns_;
  return wake_asked_ns == 0 ? 0 : std::max<std::int64_t>(0, now() - wake_asked_ns);
}

// Sleeps until an event, or until it is time to look.
int Arbitration::sleep(std::span<epoll_event> events) const {
  const std::int64_t due_ns = std::min(next_look_ns_, board_times_.due_ns());
  const bool for_good = due_ns == schedule::kNever;
  const std::int64_t left_ns = for_good ? 0 : std::max<std::int64_t>(0, due_ns - now());
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
    const std::int64_t start_ns = now();
    if (!heard && start_ns < next_look_ns_) {
      tell_boards(start_ns);
      continue;
    }
    next_look_ns_ = look(start_ns);
    wake_asked_ns_ = 0;
    const std::int64_t decided_ns = now();
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
  const std::int64_t now_ns = now();
  for (auto& [name, member] : members_)
    for (int i = 0; i < count; ++i)
      if (events[static_cast<std::size_t>(i)].data.ptr == &member) on_doorbell(member, now_ns);
  return true;
}

void Arbitration::on_doorbell(Member& member, std::int64_t now_ns) {
  bool shut = false, memory = false, reading = false;
  std::int64_t cost_ns = kHearNs;
  for (std::size_t i = 0; i < kMaxHeardAtOnce && !shut; ++i) {
    char said = 0;
    const ssize_t length = receive_bytes(member.share.bell(), &said, 1, MSG_TRUNC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) break;
    shut = length <= 0;  // the peer's end is closed, or a message with descriptors was refused
    figures_.rings += !shut;
    cost_ns += length > 1 ? kStrangeNs : kRingNs;
    memory |= said == static_cast<char>(ledger::Ring::memory);
    reading |= said == static_cast<char>(ledger::Ring::reading);
  }
  member.rang = true;
  if (memory && asked_) asked_(member.share.name(), ledger::Ring::memory);
  if (reading && asked_) asked_(member.share.name(), ledger::Ring::reading);
  if (shut) {
    member.doorbell_closed = true;
    return listen(member, false);
  }
  if (memory || reading) cost_ns += kHandedOnNs;
  member.paid_ns = std::max(member.paid_ns, now_ns - kCreditNs) + cost_ns;
  if (member.paid_ns <= now_ns) return;
  ++figures_.unheard_rings;
  member.muted_until_ns = std::max(member.paid_ns, now_ns + kMinPauseNs);
  listen(member, false);
}

void Arbitration::listen(const Member& member, bool on) {
  epoll_event event{.events = on ? EPOLLIN : 0u, .data = {.ptr = const_cast<Member*>(&member)}};
  ::epoll_ctl(poll_.get(), member.doorbell_closed ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, member.share.bell(), &event);
}

void Arbitration::look_at(Member& member, std::int64_t now_ns) {
  if (!member.share.has_terms(member.terms)) {
    member.terms = member.share.terms();
    arbiter_.change_share(member.id, member.terms);
  }
  if (member.rang) member.share.look_anew();
  member.waits = false;
  bool works = member.rang, told = true, behind_its_gate = false;
  std::uint64_t held_ns = 0;  // unsigned: a tenant may have written anything
  for (const schedule::Terms& each : member.terms) {
    const schedule::Use use = member.share.use_of(each.gpu, now_ns);
    arbiter_.observe(member.id, each.gpu, use, now_ns);
    member.waits |= use.wanting;
    works |= use.wanting || use.in_flight_ns > 0;
    held_ns += static_cast<std::uint64_t>(use.held_ns);
    const schedule::Gate gate = member.share.gate(each.gpu);
    told &= gate == schedule::Gate::open_notify || gate == schedule::Gate::shut;
    behind_its_gate |= use.in_flight_ns > 0 && (gate == schedule::Gate::shut || gate == schedule::Gate::queued);
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
  std::int64_t next_ns = schedule::kNever;
  if (looked_ns_ != 0 && now_ns - looked_ns_ > kProddedNs) arbiter_.note_absence();
  looked_ns_ = now_ns;
  const bool full_scan = now_ns - full_scan_ns_ >= kFullScanNs;
  if (full_scan) full_scan_ns_ = now_ns;
  for (auto& [name, member] : members_) {
    if (member.asleep && !member.rang && !member.doorbell_closed && !full_scan) continue;
    look_at(member, now_ns);
    if (member.waits || member.doorbell_closed) next_ns = std::min(next_ns, now_ns + ledger::kTurnLookNs);
  }
  for (auto& [name, member] : members_) {
    if (member.muted_until_ns == 0) continue;
    if (member.doorbell_closed || now_ns >= member.muted_until_ns) member.muted_until_ns = 0;
    else next_ns = std::min(next_ns, member.muted_until_ns);
    if (member.muted_until_ns == 0 && !member.doorbell_closed) listen(member, true);
  }
  while (const auto turn = arbiter_.next_turn(now_ns)) arbiter_.settle(*turn, idle_ns(*turn, now_ns));
  const schedule::Decision decision = arbiter_.decide(now_ns);
  for (const schedule::Change& change : decision.changes) {
    Member* const member = by_id_[change.share];
    if (member == nullptr) continue;
    member->share.write_gate(change.gpu, change.gate, change.batch_ns);
    if (ledger::lets_in(static_cast<ledger::Gate>(change.gate))) let_in_.emplace_back(&member->share, change.gpu);
    member->asleep = false;
  }
  figures_.gate_writes += decision.changes.size();
  for (auto& [name, member] : members_) {
    if (member.id == schedule::kNoShare || (member.asleep && !full_scan)) continue;
    for (std::size_t i = 0; i < member.terms.size(); ++i) {
      const std::uint32_t gpu = member.terms[i].gpu;
      const std::int64_t virtual_ns = arbiter_.virtual_time_ns(member.id, gpu);
      if (std::exchange(member.virtual_times_ns[i], virtual_ns) != virtual_ns)
        member.share.keep_virtual_time(gpu, virtual_ns);
    }
  }
  return std::min(next_ns, decision.wake_at_ns);
}

// Call it after all gates are written: a processor that wakes slowly then delays no other share's gate.
void Arbitration::wake_let_in(std::int64_t now_ns) {
  if (let_in_.empty()) return;
  for (const auto& [share, gpu] : let_in_) share->wake_at_gate(gpu);
  let_in_.clear();
  figures_.wakes.add(now() - now_ns);
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
        member.seated_ns += board->bring(marks, member.share.generation(), now_ns, newcomers) * kSeatedNs;
      } else if (member.on_board) board->forget(member.share.generation());
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
  // Few of the shares: of 64 mostly two.
  at_turn_.clear();
  for (auto& [name, member] : members_)
    if ((!member.asleep || member.active_ns >= turn.from_ns) && member.share.has(turn.gpu))
      at_turn_.push_back({.share = &member.share});
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
