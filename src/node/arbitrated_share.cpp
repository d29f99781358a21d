#include "node/arbitrated_share.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "guest/ledger/compute_account.hpp"
#include "guest/ledger/registration.hpp"
#include "tenancy/shares.hpp"

namespace headgate::node {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::int64_t kOverdueNs = 1'000;  // reported for work that should have ended
// The longest until a process is seen that joins a share which has the GPU. At any other gate the process rings.
constexpr std::int64_t kListedNs = 10'000'000;

static_assert(static_cast<int>(schedule::Gate::open) == static_cast<int>(ledger::Gate::open) &&
              static_cast<int>(schedule::Gate::shut) == static_cast<int>(ledger::Gate::shut) &&
              static_cast<int>(schedule::Gate::batch) == static_cast<int>(ledger::Gate::batch) &&
              static_cast<int>(schedule::Gate::open_notify) == static_cast<int>(ledger::Gate::open_notify) &&
              static_cast<int>(schedule::Gate::queued) == static_cast<int>(ledger::Gate::queued) &&
              schedule::kEndingNs == ledger::kEndingNs);

constexpr std::int64_t kMaxCreditNs = 100'000'000, kBelievedNs = 100'000'000, kMaxDebtNs = 1'000'000'000;
// Time that a share held beside others that were not done either may mostly be given back later
// (guest/ledger/gpu_page.hpp).
constexpr std::int64_t kMinPart = 4;

// 2,000 rings a second, each heard alone, take three fifths of a share's time. A flood is heard once in 1 ms; single
// rings 3,300 times a second, at some 10 us each.
constexpr std::int64_t kHearNs = 250'000, kRingNs = 48'000, kCreditNs = 10'000'000, kMinPauseNs = 1'000'000;
// Cost of a message that no limiter sends: longer than a byte.
constexpr std::int64_t kStrangeNs = 1'000'000;
// A request that is handed on costs other threads time, too.
constexpr std::int64_t kHandedOnNs = 750'000;
// Each takes two system calls (receive_bytes()); the rest stays in the socket for the next time.
constexpr std::uint32_t kMaxHeardAtOnce = 16;

}  // namespace

Result<ArbitratedShare> ArbitratedShare::open(const std::string& runtime_dir, const std::string& name,
                                              const std::vector<std::string>& gpus) {
  ledger::SharePages pages;
  const tenancy::SigbusScope survives;  // for reads before the guard exists
  if (const auto bad = ledger::open_share(runtime_dir.c_str(), name.c_str(), ledger::Access::owner, pages))
    return std::unexpected(tenancy::page_error(bad, runtime_dir, name));
  ArbitratedShare share(pages, name, gpus);
  if (!share.guard_) return std::unexpected(tenancy::unguarded(name));
  return share;
}

ArbitratedShare::ArbitratedShare(ledger::SharePages pages, std::string name, const std::vector<std::string>& gpus)
    : name_(std::move(name)),
      pages_(pages),
      guard_(pages.usage, sizeof(ledger::UsagePage)),
      pulses_(std::size_t{pages.policy->device_count} * ledger::kMaxSlots) {
  seats_.reserve(ledger::kMaxSlots);
  device_of_.fill(ledger::kMaxDevices);
  // Under MPS or MIG kernels of several shares run at once: there are no turns to decide.
  if (pages.policy->level == ledger::Level::mps || pages.policy->level == ledger::Level::mig) return;
  for (std::size_t g = 0; g < gpus.size() && g < schedule::kMaxGpus; ++g)
    device_of_[g] = ledger::find_device(*pages.policy, gpus[g].c_str());
}

bool ArbitratedShare::make_marks() {
  if (!marks_) marks_ = ShareMarks(pages_.policy());
  return static_cast<bool>(marks_);
}

std::vector<std::uint32_t> ArbitratedShare::gpus() const {
  std::vector<std::uint32_t> of_device(pages_.policy().device_count, schedule::kMaxGpus);
  for (std::uint32_t g = 0; g < schedule::kMaxGpus; ++g)
    if (has(g)) of_device[device_of_[g]] = g;
  return of_device;
}

schedule::Terms ArbitratedShare::terms_of(std::uint32_t gpu) const {
  const ledger::DevicePolicy& policy = policy_of(gpu);
  return {.gpu = gpu,
          .weight = policy.weight.load(kRelaxed),
          .guarantee_ppm = policy.compute_guarantee_ppm.load(kRelaxed),
          .priority_class = static_cast<schedule::Class>(policy.priority_class.load(kRelaxed))};
}

std::vector<schedule::Terms> ArbitratedShare::terms() const {
  std::vector<schedule::Terms> all;
  for (std::uint32_t g = 0; g < schedule::kMaxGpus; ++g)
    if (has(g)) all.push_back(terms_of(g));
  return all;
}

// Returns whether the slot's pulse has moved lately: a stopped process would hold its turns and use none.
bool ArbitratedShare::alive(std::uint32_t device, std::uint32_t slot, std::uint32_t pulse, std::int64_t now_ns) {
  Pulse& last = pulses_[device * ledger::kMaxSlots + slot];
  if (last.pulse != pulse || last.seen_ns == 0) last = {pulse, now_ns};
  return now_ns - last.seen_ns < ledger::kNoPulseNs;
}

// Not called at each look: a tenant can claim that all its slots were used, and a user can have many shares. Each slot
// costs a cache line or two.
void ArbitratedShare::list_seats(std::int64_t now_ns) {
  const ledger::UsagePage& usage = pages_.usage();
  seats_.clear();
  const std::uint32_t slots = std::min(usage.slots_seen.load(std::memory_order_acquire), ledger::kMaxSlots);
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    if (ledger::view(usage, slot).kind == ledger::SlotKind::live) seats_.push_back(slot);
  listed_ns_ = now_ns;
}

schedule::Use ArbitratedShare::use_of(std::uint32_t gpu, std::int64_t now_ns) {
  const std::uint32_t device = device_of_[gpu];
  const ledger::UsagePage& usage = pages_.usage();
  const ledger::ComputeAccount& account = usage.compute[device];
  schedule::Use use;
  use.held_ns = static_cast<std::int64_t>(account.held_ns.load(kRelaxed));
  use.given_back_ns = static_cast<std::int64_t>(account.neighbours_ns.load(kRelaxed));
  use.kernel_ns = account.kernel_ns.load(kRelaxed);
  use.dry_ns = account.dry_ns.load(kRelaxed);
  use.dry_spells = account.dry_spells.load(kRelaxed);
  use.requests = account.requests.load(kRelaxed);
  if (const std::uint32_t ceiling_ppm = policy_of(gpu).compute_ceiling_ppm.load(kRelaxed);
      ceiling_ppm < ledger::kWholeGpu) {
    const std::int64_t left_ns = ledger::paid_until_ns(account) - now_ns;
    use.ceiling_ns = std::max<std::int64_t>(0, left_ns);
    use.credit_ns = std::max<std::int64_t>(0, -left_ns);
    use.ceiling_ppm = ceiling_ppm;
  }
  if (now_ns - listed_ns_ >= kListedNs) list_seats(now_ns);
  for (const std::uint32_t slot : seats_) {
    const ledger::WorkReport report = ledger::work_of(usage, device, slot);
    if ((!report.waiting && report.work_until_ns == 0) || !alive(device, slot, report.pulse, now_ns)) continue;
    ++use.processes;
    use.wanting |= report.waiting;
    if (report.work_until_ns != 0) {
      const std::int64_t until_ns = ledger::sane_paid_ns(report.work_until_ns);
      use.in_flight_ns = std::max({use.in_flight_ns, kOverdueNs, until_ns - now_ns});
      if (report.oldest_ns != 0)
        use.oldest_age_ns = std::max(use.oldest_age_ns, now_ns - ledger::sane_paid_ns(report.oldest_ns));
    }
  }
  // Of several processes each one's kernels have slices beside the others'. All end when the share's work does.
  if (use.in_flight_ns > 0 && now_ns < account.several_until_ns.load(kRelaxed))
    use.in_flight_ns = std::max(kOverdueNs, ledger::sane_paid_ns(account.sent_until_ns.load(kRelaxed)) - now_ns);
  return use;
}

std::uint64_t ArbitratedShare::held_in(std::uint32_t gpu, std::int64_t word) const {
  return pages_.usage().compute[device_of_[gpu]].coverage.word(word);
}

bool ArbitratedShare::is_supported_by_account(std::uint32_t gpu, std::int64_t alone_ns, std::int64_t now_ns) {
  const auto held_ns = static_cast<std::int64_t>(pages_.usage().compute[device_of_[gpu]].held_ns.load(kRelaxed));
  return report_checks_[gpu].holds(alone_ns, held_ns, now_ns);
}

schedule::Gate ArbitratedShare::gate(std::uint32_t gpu) const {
  return static_cast<schedule::Gate>(policy_of(gpu).gate.load(kRelaxed));
}

void ArbitratedShare::write_gate(std::uint32_t gpu, schedule::Gate gate, std::int64_t batch_ns, std::int64_t opens_ns) {
  ledger::write_gate(policy(), device_of_[gpu], static_cast<ledger::Gate>(gate), batch_ns, opens_ns);
}

void ArbitratedShare::write_behind(std::uint32_t gpu, std::uint16_t ms) {
  std::atomic<std::uint16_t>& to_ms = policy().behind_ms[device_of_[gpu]];
  if (to_ms.load(kRelaxed) != ms) to_ms.store(ms, kRelaxed);
}

bool ReportCheck::holds(std::int64_t alone_ns, std::int64_t held_ns, std::int64_t now_ns) {
  // A share cannot hold a GPU longer than time passes: figures that jump back and forth would support anything.
  const std::int64_t passed_ns = looked_ns_ == 0 ? 0 : std::clamp<std::int64_t>(now_ns - looked_ns_, 0, kMaxDebtNs);
  const auto more_ns =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(held_ns) - static_cast<std::uint64_t>(held_ns_));
  const std::int64_t grown_ns = looked_ns_ == 0 ? 0 : std::clamp(more_ns, -kMaxDebtNs, passed_ns);
  held_ns_ = held_ns;
  looked_ns_ = now_ns;
  credit_ns_ =
      std::clamp(std::min(credit_ns_ + kMinPart * grown_ns, kMaxCreditNs) - alone_ns, -kMaxDebtNs, kMaxCreditNs);
  return credit_ns_ > -kBelievedNs;
}

Doorbell::Heard Doorbell::hear(std::int64_t now_ns) {
  Heard heard;
  std::int64_t cost_ns = kHearNs;
  while (heard.rings < kMaxHeardAtOnce && !closed_) {
    char said = 0;
    const ssize_t length = receive_bytes(socket_.get(), &said, 1, MSG_TRUNC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) break;
    closed_ = length <= 0;  // the peer's end is closed, or a message with descriptors was refused
    heard.rings += !closed_;
    cost_ns += length > 1 ? kStrangeNs : kRingNs;
    heard.memory |= said == static_cast<char>(ledger::Ring::memory);
    heard.reading |= said == static_cast<char>(ledger::Ring::reading);
  }
  if (heard.memory || heard.reading) cost_ns += kHandedOnNs;
  paid_ns_ = std::max(paid_ns_, now_ns - kCreditNs) + cost_ns;
  if (paid_ns_ > now_ns) muted_until_ns_ = std::max(paid_ns_, now_ns + kMinPauseNs);
  return heard;
}

}  // namespace headgate::node
