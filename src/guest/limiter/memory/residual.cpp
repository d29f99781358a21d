#include "guest/limiter/memory/residual.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/saturating.hpp"
#include "guest/bare/scratch.hpp"
#include "guest/ledger/draining.hpp"
#include "guest/ledger/slot.hpp"
#include "guest/limiter/memory/context_size.hpp"
#include "guest/limiter/memory/draining.hpp"
#include "guest/limiter/memory/in_flight_bytes.hpp"
#include "guest/limiter/memory/memory_thread.hpp"
#include "guest/limiter/memory/pool.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/route/presence.hpp"
#include "guest/limiter/session/membership.hpp"
#include "guest/limiter/session/node_page.hpp"

namespace headgate::limiter {
namespace {

constexpr std::int64_t kFresh = 50'000'000;
constexpr std::int64_t kLookEvery = 10'000'000;

constexpr std::int64_t kNvmlRetryEvery = 1'000'000'000;

std::atomic<bool> nvml_is_ready{false};
std::atomic<std::int64_t> nvml_retry_at{0};  // after a failure, NVML may become available later
std::atomic<std::uint64_t> summed[ledger::kMaxDevices];
std::atomic<std::int64_t> summed_at[ledger::kMaxDevices];
std::atomic<std::uint32_t> summed_residuals[ledger::kMaxDevices];  // UsagePage::residuals at that time
std::atomic<bool> listed{false};
std::atomic<bool> told{false};  // by the daemon, at least once
std::atomic<bool> due[ledger::kMaxDevices];
std::atomic<bool> moved[ledger::kMaxDevices];
std::atomic<std::int64_t> measured_at[ledger::kMaxDevices];     // 0: never
std::atomic<std::int64_t> refreshed_at[ledger::kMaxDevices];    // for any caller
std::atomic<std::uint64_t> seen_sequence[ledger::kMaxDevices];  // of our slot, at the last look
std::atomic<std::int64_t> still_since[ledger::kMaxDevices];     // when that was first seen
std::atomic<std::uint64_t> least[ledger::kMaxDevices];          // explained by calls: a lower bound
std::atomic<std::uint64_t> allowed[ledger::kMaxDevices];        // code that may be loaded at a launch

void tell_explained(std::uint32_t device) {
  if (!seated()) return;
  const std::uint64_t bytes =
      least[device].load(std::memory_order_relaxed) + allowed[device].load(std::memory_order_relaxed);
  own_books(device).explained_bytes.store(ledger::kExplained | bytes, std::memory_order_relaxed);
}

void lower(std::atomic<std::uint64_t>& value, std::uint64_t bytes) {
  std::uint64_t seen = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(seen, seen > bytes ? seen - bytes : 0)) {
  }
}

}  // namespace

bool nvml_ready() {
  if (nvml_is_ready.load(std::memory_order_acquire)) return true;
  const std::int64_t now = coarse_now_ns();
  if (now < nvml_retry_at.load(std::memory_order_relaxed)) return false;
  const bool ready = load_nvml() && forward(nvml.nvmlInit_v2) == abi::NVML_SUCCESS;
  if (ready) nvml_is_ready.store(true, std::memory_order_release);
  else nvml_retry_at.store(now + kNvmlRetryEvery, std::memory_order_relaxed);
  return ready;
}

void nvml_was_ended() {
  if (forward(nvml.nvmlInit_v2) != abi::NVML_SUCCESS) nvml_is_ready.store(false, std::memory_order_release);
}

abi::nvmlReturn_t find_card(std::uint32_t device_index, abi::nvmlDevice_t& card) {
  return asking_nvml(
      [&] { return forward(nvml.nvmlDeviceGetHandleByUUID, session.held.devices[device_index].uuid, &card); });
}

abi::nvmlReturn_t list_processes(abi::nvmlDevice_t device, Listing which, ProcessList& list, unsigned& count) {
  const bool newest = nvml.nvmlDeviceGetComputeRunningProcesses_v3 != nullptr;
  auto* const& compute =
      newest ? nvml.nvmlDeviceGetComputeRunningProcesses_v3 : nvml.nvmlDeviceGetComputeRunningProcesses_v2;
  auto* const& graphics =
      newest ? nvml.nvmlDeviceGetGraphicsRunningProcesses_v3 : nvml.nvmlDeviceGetGraphicsRunningProcesses_v2;
  const abi::nvmlReturn_t result = asking_nvml(
      [&] { return forward(which == Listing::compute ? compute : graphics, device, &(count = kMaxListed), list); });
  count = std::min(count, kMaxListed);
  return result;
}

namespace {

// The driver's figure for this process: known, unknown just now, or never available.
enum class Answer { known, unknown, never };
struct Figure {
  Answer answer = Answer::unknown;
  std::uint64_t bytes = 0;
};

Answer answer_of(abi::nvmlReturn_t result) {
  switch (result) {
    case abi::NVML_SUCCESS: return Answer::known;
    case abi::NVML_ERROR_NOT_SUPPORTED:
    case abi::NVML_ERROR_FUNCTION_NOT_FOUND: return Answer::never;
    default: return Answer::unknown;
  }
}

Figure listed_bytes(abi::nvmlDevice_t device, Listing which, unsigned pid, ProcessList& entries) {
  unsigned count = 0;
  Figure found{answer_of(list_processes(device, which, entries, count))};
  for (unsigned i = 0; found.answer == Answer::known && i < count; ++i) {
    if (entries[i].pid != pid) continue;
    if (entries[i].usedGpuMemory == ~0ull) return {Answer::never};
    found.bytes = entries[i].usedGpuMemory;
    break;
  }
  return found;
}

// Both lists name a process that computes and draws, with the same figure, so the larger one counts. A driver without
// graphics may lack the second list.
Figure larger(const Figure& compute, const Figure& graphics) {
  if (compute.answer != Answer::known) return compute;
  if (graphics.answer == Answer::unknown) return graphics;
  return graphics.answer == Answer::known && graphics.bytes > compute.bytes ? graphics : compute;
}

Figure nvml_bytes_of(std::uint32_t device_index, unsigned pid) {
  abi::nvmlDevice_t device = nullptr;
  const Answer found = answer_of(find_card(device_index, device));
  if (found != Answer::known) return {found};
  const bare::Scratch<ProcessList> list;
  if (!list) return {};
  return larger(listed_bytes(device, Listing::compute, pid, *list),
                listed_bytes(device, Listing::graphics, pid, *list));
}

// Returns the figure for this process at a moment during the call: from the daemon if it answers, else from NVML.
Figure driver_bytes_now(std::uint32_t device_index) {
  Figure now{Answer::known};
  if (fresh_reading() && told_bytes(own_slot(), device_index, now.bytes)) {
    told.store(true, std::memory_order_relaxed);
    return now;
  }
  // If the library cannot be loaded, this process will never have it.
  if (!nvml_ready()) return {load_nvml() ? Answer::unknown : Answer::never};
  now = nvml_bytes_of(device_index, static_cast<unsigned>(::getpid()));
  // In a container the daemon knows what NVML does not show us: its last figure stands.
  if (now.answer == Answer::known && now.bytes == 0 && told.load(std::memory_order_relaxed)) return {};
  return now;
}

}  // namespace

namespace {

// The device stays due until measured: a request that comes meanwhile measures too.
class Measured {
 public:
  explicit Measured(std::uint32_t device_index) : device_index_(device_index) {}
  ~Measured() {
    if (device_index_ < ledger::kMaxDevices) due[device_index_].store(false, std::memory_order_relaxed);
  }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

 private:
  std::uint32_t device_index_;
};

// Measuring while a program keeps allocating would cost more than it is worth.
constexpr std::int64_t kStillNs = 35'000'000;
bool still(std::uint32_t device_index, std::uint64_t sequence) {
  const std::int64_t now = coarse_now_ns();
  if (seen_sequence[device_index].load(std::memory_order_acquire) == sequence)
    return now - still_since[device_index].load(std::memory_order_relaxed) >= kStillNs;
  // Store the time first: a thread that sees this sequence must not use an earlier one's time.
  still_since[device_index].store(now, std::memory_order_relaxed);
  seen_sequence[device_index].store(sequence, std::memory_order_release);
  return false;
}

std::uint64_t sequence_of(std::uint32_t device_index) {
  return own_books(device_index).sequence.load(std::memory_order_acquire);
}

// Returns whether ledger and driver agree: no request is in between. A launch of a graph that allocates may be in
// between for any time.
bool nothing_between(std::uint32_t device_index) {
  return !is_in_flight(device_index) && !pools_under_way(device_index);
}

// A reading while memory changes must not lower the residual, so it is worth little.
bool quiet_on(std::uint32_t device_index, std::uint64_t sequence) {
  return still(device_index, sequence) && nothing_between(device_index);
}

// A context charged by estimate, or not yet, is charged by its measured size from here on.
void learn(std::uint32_t device_index, std::uint64_t measured) {
  const std::int64_t more = learn_contexts(device_index, measured, least[device_index].load(std::memory_order_relaxed));
  if (more > 0) least[device_index].fetch_add(static_cast<std::uint64_t>(more));
  else lower(least[device_index], static_cast<std::uint64_t>(-more));
  if (more != 0) tell_explained(device_index);
}

}  // namespace

bool nvml_lists_us() { return listed.load(std::memory_order_relaxed); }

bool refresh_residual(std::uint32_t device_index) {
  const Measured whoever_asks(device_index);
  if (!seated() || device_index >= ledger::kMaxDevices) return true;
  // A frozen process shows nothing permanent, and must not be brought back for this.
  if (!on_its_gpus()) return true;
  settle_pools(device_index);  // what they released silently would hide as much of the residual
  const std::uint64_t sequence = sequence_of(device_index);
  const bool was_quiet = quiet_on(device_index, sequence);
  ledger::SlotDevice& accounting = own_books(device_index);
  std::uint64_t last = accounting.residual_bytes.load(std::memory_order_relaxed);
  // Other threads allocate and free meanwhile. Bytes are reserved before the driver has them and given back after, so
  // the larger of the ledger's values before and after never counts them as residual.
  const std::uint64_t before = ledger::held_bytes(*session.usage, device_index, session.slot);
  const Figure now = driver_bytes_now(device_index);
  // The last measurement stands until memory changes again or a caller asks.
  if (now.answer != Answer::known) {
    refreshed_at[device_index].store(coarse_now_ns(), std::memory_order_relaxed);
    return false;
  }
  const std::uint64_t shown = now.bytes;
  if (shown != 0) listed.store(true, std::memory_order_relaxed);
  const std::uint64_t after = ledger::held_bytes(*session.usage, device_index, session.slot);
  const std::uint64_t most = before > after ? before : after;
  const std::uint64_t draining = own_draining(device_index);
  const std::uint64_t held = most > draining ? most - draining : 0;
  const std::uint64_t measured = shown > held ? shown - held : 0;
  if (nothing_between(device_index) && sequence_of(device_index) == sequence) learn(device_index, measured);
  const std::uint64_t residual = std::max(measured, least[device_index].load(std::memory_order_relaxed));
  // Bytes reserved but not yet allocated, or freed but not yet given back, hide as much residual, and others would get
  // that room. A request in between before the reading was seen there, or has changed the sequence since.
  if (was_quiet) settle_pools(device_index);
  const bool quiet = was_quiet && nothing_between(device_index) && sequence_of(device_index) == sequence;
  // Another thread may have read later and stored first: replace its value only by a larger one.
  bool stored = false;
  if (residual < last) {
    if (quiet && on_its_gpus() && !destroyed_pools_charged(device_index))
      stored = accounting.residual_bytes.compare_exchange_strong(last, residual);
  } else {
    while (residual > last && !stored) stored = accounting.residual_bytes.compare_exchange_weak(last, residual);
  }
  if (stored) session.usage->residuals.fetch_add(1, std::memory_order_release);
  if (!quiet) residual_moved(device_index);
  ledger::note_in_use(*session.usage, device_index, share_residual_now(device_index));
  refreshed_at[device_index].store(coarse_now_ns(), std::memory_order_relaxed);
  return true;
}

void refresh_residual_if_old(std::uint32_t device_index) {
  if (device_index >= ledger::kMaxDevices) return;
  const std::int64_t age = coarse_now_ns() - refreshed_at[device_index].load(std::memory_order_relaxed);
  if (age < kFresh && !due[device_index].load(std::memory_order_relaxed)) return;
  refresh_residual(device_index);
}

std::uint64_t share_residual_now(std::uint32_t device_index) {
  std::uint64_t sum = 0;
  const std::uint32_t residuals = session.usage->residuals.load(std::memory_order_acquire);
  ledger::each_slot(*session.usage, [&](const ledger::SlotAt& at) {
    if (at.kind != ledger::SlotKind::live) return;
    sum = bare::saturating_add(sum, at.slot.devices[device_index].residual_bytes.load(std::memory_order_relaxed));
  });
  sum = bare::saturating_add(sum, ledger::torn_on(*session.usage, device_index).residual);
  summed[device_index].store(sum, std::memory_order_relaxed);
  summed_residuals[device_index].store(residuals, std::memory_order_relaxed);
  summed_at[device_index].store(coarse_now_ns(), std::memory_order_relaxed);
  return sum;
}

// Bytes move only from the account to the residual: with the account read first they may count twice, never not at all.
std::uint64_t bytes_in_use(std::uint32_t device_index) {
  const std::uint64_t used = ledger::used_bytes(*session.usage, device_index);
  return bare::saturating_add(used, share_residual(device_index, coarse_now_ns()));
}
std::uint64_t bytes_in_use_now(std::uint32_t device_index) {
  const std::uint64_t used = ledger::used_bytes(*session.usage, device_index);
  return bare::saturating_add(used, share_residual_now(device_index));
}

void residual_is_due(std::uint32_t device_index) {
  if (device_index >= ledger::kMaxDevices) return;
  due[device_index].store(true, std::memory_order_relaxed);
  measured_at[device_index].store(coarse_now_ns(), std::memory_order_relaxed);
  residual_moved(device_index);
}

void residual_moved(std::uint32_t device_index) {
  if (device_index >= ledger::kMaxDevices) return;  // host memory has none
  if (moved[device_index].load(std::memory_order_relaxed) || moved[device_index].exchange(true)) return;
  wake_memory_thread();
}

std::int64_t measure_moved(std::int64_t now_ns) {
  std::int64_t next = kNothingMoved;
  for (std::uint32_t device = 0; device < ledger::kMaxDevices; ++device) {
    if (!moved[device].load(std::memory_order_relaxed)) continue;
    // Looks cost no NVML call, and a reading that may not lower anything is worth little: wait a while for quiet.
    const bool quiet = seated() && quiet_on(device, sequence_of(device));
    std::int64_t last = measured_at[device].load(std::memory_order_relaxed);
    // What takes memory first is a context of known size, or one that its creator measures.
    if (last == 0 && measured_at[device].compare_exchange_strong(last, now_ns)) last = now_ns;
    const std::int64_t due_ns = last + (quiet ? kResidualEvery : kResidualLatest);
    if (due_ns > now_ns) {
      const std::int64_t look_ns = quiet ? due_ns : now_ns + kLookEvery;
      next = std::min({next, due_ns, look_ns});
      continue;
    }
    measured_at[device].store(now_ns, std::memory_order_relaxed);
    // Before the reading: changes during it cause another measurement.
    moved[device].store(false);
    refresh_residual(device);
    return now_ns;
  }
  return next;
}

void measure_residual_if_due(std::uint32_t device_index) {
  if (!due[device_index].load(std::memory_order_relaxed)) [[likely]]
    return;
  const bare::KeepErrno keep_errno;
  refresh_residual(device_index);
}

std::uint64_t share_residual(std::uint32_t device_index, std::int64_t now_ns) {
  const std::int64_t age = now_ns - summed_at[device_index].load(std::memory_order_relaxed);
  const bool current = summed_residuals[device_index].load(std::memory_order_relaxed) ==
                       session.usage->residuals.load(std::memory_order_relaxed);
  if (current && age >= 0 && age < kFresh) [[likely]]
    return summed[device_index].load(std::memory_order_relaxed);
  return share_residual_now(device_index);
}

void residual_rises(std::uint32_t device_index, std::uint64_t bytes) {
  if (bytes == 0 || device_index >= ledger::kMaxDevices) return;
  auto& residual = own_books(device_index).residual_bytes;
  least[device_index].fetch_add(bytes);
  tell_explained(device_index);
  residual.fetch_add(bytes);
  session.usage->residuals.fetch_add(1, std::memory_order_release);
  residual_moved(device_index);
}

void residual_rose(std::uint32_t device_index, std::uint64_t bytes) {
  if (device_index >= ledger::kMaxDevices) return;
  least[device_index].fetch_add(bytes);
  tell_explained(device_index);
}

void code_may_come(std::uint32_t device_index, std::uint64_t bytes) {
  if (device_index >= ledger::kMaxDevices) return;
  allowed[device_index].fetch_add(bytes);
  tell_explained(device_index);
}

void residual_falls(std::uint32_t device_index, std::uint64_t bytes) {
  if (bytes == 0 || !seated() || device_index >= ledger::kMaxDevices) return;
  lower(least[device_index], bytes);
  tell_explained(device_index);
  lower(own_books(device_index).residual_bytes, bytes);
  session.usage->residuals.fetch_add(1, std::memory_order_release);
  residual_moved(device_index);
}

void note_peaks(std::uint32_t device_index) {
  ledger::note_peak(*session.usage, device_index);
  if (device_index < ledger::kMaxDevices)
    ledger::note_in_use(*session.usage, device_index, share_residual(device_index, coarse_now_ns()));
}

std::uint64_t own_residual(std::uint32_t device_index) {
  return own_books(device_index).residual_bytes.load(std::memory_order_relaxed);
}

void residual_reset_after_fork() {
  nvml_is_ready.store(false, std::memory_order_relaxed);
  nvml_retry_at.store(0, std::memory_order_relaxed);
  listed.store(false, std::memory_order_relaxed);
  told.store(false, std::memory_order_relaxed);
  for (auto& when : summed_at) when.store(-kFresh, std::memory_order_relaxed);
  for (auto& when : refreshed_at) when.store(-kFresh, std::memory_order_relaxed);
  for (auto& device : due) device.store(false, std::memory_order_relaxed);
  for (auto& device : moved) device.store(false, std::memory_order_relaxed);
  for (auto& when : measured_at) when.store(0, std::memory_order_relaxed);
  for (auto& bytes : least) bytes.store(0, std::memory_order_relaxed);
  for (auto& bytes : allowed) bytes.store(0, std::memory_order_relaxed);
}

}  // namespace headgate::limiter
