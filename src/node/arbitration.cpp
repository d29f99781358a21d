#include "node/arbitration.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "guest/ledger/clock.hpp"
#include "tenancy/share.hpp"

namespace headgate::node {
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
    for (const schedule::Terms& terms : member.terms) {
      member.share.write_behind(terms.gpu, 0);
      member.share.write_gate(terms.gpu, schedule::Gate::open, 0);
      member.share.wake_at_gate(terms.gpu);
    }
}

Result<void> Arbitration::add(const std::string& runtime_dir, const std::string& name, const std::string& gang,
                              UniqueFd bell) {
  ArbitratedShare opened = TRY(ArbitratedShare::open(runtime_dir, name, gpus_));
  remove(name);
  const std::scoped_lock lock(members_lock_);
  auto terms = opened.terms();
  Member& member =
      members_.emplace(name, Member{std::move(opened), Doorbell(std::move(bell)), std::move(terms)}).first->second;
  if (const int heard = member.bell.descriptor(); heard >= 0 && poll(EPOLL_CTL_ADD, heard, EPOLLIN, member) != 0) {
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
  for (const schedule::Terms& each : member.terms)
    virtual_times_ns.push_back(member.share.policy_of(each.gpu).virtual_time_ns.load(std::memory_order_relaxed));
  const schedule::ShareId id =
      arbiter_.add_share({.gpus = member.terms, .gang = gang, .virtual_times_ns = std::move(virtual_times_ns)});
  member.id = id;
  if (by_id_.size() <= id) by_id_.resize(id + 1);
  by_id_[id] = &member;
  for (const schedule::Terms& each : member.terms) {
    const bool decided = in_force(each.gpu) != schedule::Policy::off;
    if (decided && member.share.policy_of(each.gpu).arbitrated.load(std::memory_order_relaxed) == 0)
      member.share.write_gate(each.gpu, schedule::Gate::open_notify, 0);
    // What was held before is already in the virtual time, or was never counted.
    arbiter_.adopt(id, each.gpu, member.share.use_of(each.gpu, ledger::host_ns()), member.share.gate(each.gpu));
    member.share.set_arbitrated(each.gpu, decided);
  }
  member.share.beat();
}

void Arbitration::remove(const std::string& name) {
  const std::scoped_lock lock(members_lock_);
  const auto found = members_.find(name);
  if (found == members_.end()) return;
  Member& member = found->second;
  poll(EPOLL_CTL_DEL, member.bell.descriptor(), 0, member);
  for (const schedule::Terms& terms : member.terms)
    if (GpuBoard* const board = boards_.of(terms.gpu)) board->forget(member.share.policy().generation);
  if (member.id != schedule::kNoShare) {
    arbiter_.remove_share(member.id);
    by_id_[member.id] = nullptr;
  }
  members_.erase(found);
  wake_thread();
}

std::vector<std::string> Arbitration::doorbell_closed() const {
  const std::scoped_lock lock(members_lock_);
  std::vector<std::string> names;
  for (const auto& [name, member] : members_)
    if (member.bell.is_closed()) names.push_back(name);
  return names;
}

Result<void> Arbitration::listen_by(const std::string& name, UniqueFd bell) {
  const std::scoped_lock lock(members_lock_);
  const auto found = members_.find(name);
  if (found == members_.end()) return {};
  Member& member = found->second;
  if (poll(EPOLL_CTL_ADD, bell.get(), EPOLLIN, member) != 0)
    return fail_errno("listening to the doorbell of share '" + name + "'", errno);
  poll(EPOLL_CTL_DEL, member.bell.descriptor(), 0, member);
  member.bell.replace(std::move(bell));
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
  wake_asked_ns_.compare_exchange_strong(none, ledger::host_ns());
  wake_thread();
}

std::int64_t Arbitration::silence_ns() const {
  const std::int64_t wake_asked_ns = wake_asked_ns_;
  return wake_asked_ns == 0 ? 0 : std::max<std::int64_t>(0, ledger::host_ns() - wake_asked_ns);
}

}  // namespace headgate::node
