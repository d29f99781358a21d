#include "sim/faults.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/unique_fd.hpp"
#include "guest/bare/clock.hpp"
#include "sim/fault_rules.hpp"
#include "sim/message.hpp"
#include "sim/out_of_the_way.hpp"

namespace headgate::sim {
namespace {

// NODE/faults. One writer at a time (flock), many readers; `epoch` is odd while the text changes.
constexpr std::size_t kCounted = 64;  // rules; the last slot counts lost devices
struct FaultPage {
  std::atomic<std::uint32_t> epoch;
  std::uint32_t length_bytes;
  std::array<char, 4088> text;
  std::array<std::atomic<std::uint64_t>, kCounted> hits;  // by every process that acts on a rule
};
static_assert(sizeof(FaultPage) == 4096 + 8 * kCounted);

// Rules and how often each was met. A rewrite restarts the counts.
struct Armed {
  FaultRules rules;
  std::unique_ptr<std::atomic<std::uint64_t>[]> met;
  const Armed* before;  // replaced, never freed: a call may still be reading it
};

std::atomic<std::uint32_t> no_page{0};
std::mutex reading;
FaultRules from_environment;  // guarded by `reading`
std::atomic<const Armed*> current{nullptr};
std::atomic<std::uint32_t> current_epoch{0};

FaultPage* mapped_page(const std::atomic<std::uint32_t>* epoch) {
  return epoch == &no_page ? nullptr : reinterpret_cast<FaultPage*>(const_cast<std::atomic<std::uint32_t>*>(epoch));
}

void install(FaultRules rules, std::uint32_t epoch) {
  const bool quiet = rules.empty();
  auto made = std::make_unique<Armed>();
  made->met = std::make_unique<std::atomic<std::uint64_t>[]>(rules.rules.size() + 1);
  made->rules = std::move(rules);
  made->before = current.load(std::memory_order_relaxed);
  current.store(made.release(), std::memory_order_release);
  current_epoch.store(epoch, std::memory_order_release);
  faults_detail::quiet_epoch.store(quiet ? epoch : faults_detail::kArmed, std::memory_order_release);
}

// Installs the page's rules if they are complete and valid; else keeps the rules in force.
void reread(const std::atomic<std::uint32_t>* epoch_word) {
  const FaultPage* page = mapped_page(epoch_word);
  const std::uint32_t epoch = epoch_word->load(std::memory_order_acquire);
  if (epoch % 2 != 0) return;
  FaultRules rules;
  if (page != nullptr) {
    const std::uint32_t length = page->length_bytes;
    const std::string text(page->text.data(), length <= page->text.size() ? length : 0);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (page->epoch.load(std::memory_order_relaxed) != epoch) return;
    rules = parse_faults(text).value_or(FaultRules{});
  }
  install(rules.empty() ? from_environment : std::move(rules), epoch);
}

const Armed* rules_in_force() {
  const auto* epoch_word = faults_detail::page_epoch.load(std::memory_order_acquire);
  if (epoch_word->load(std::memory_order_acquire) != current_epoch.load(std::memory_order_acquire)) {
    const std::lock_guard lock(reading);
    if (epoch_word->load(std::memory_order_acquire) != current_epoch.load(std::memory_order_acquire))
      reread(epoch_word);
  }
  return current.load(std::memory_order_acquire);
}

std::uint64_t now_ns() { return static_cast<std::uint64_t>(bare::now_ns()); }

void count_hit(std::size_t rule) {
  FaultPage* page = mapped_page(faults_detail::page_epoch.load(std::memory_order_acquire));
  if (page != nullptr && rule < kCounted) page->hits[rule].fetch_add(1, std::memory_order_relaxed);
}

void sleep_us(std::uint64_t us) {
  timespec left{static_cast<time_t>(us / 1'000'000), static_cast<long>(us % 1'000'000 * 1000)};
  while (::nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

void spend_us(std::uint64_t us) {
  const std::uint64_t end = now_ns() + us * 1000;
  while (now_ns() < end) {
  }
}

FaultPage* map_page(const std::string& directory) {
  const std::string path = directory + "/faults";
  const UniqueFd fd = out_of_the_way(UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)));
  struct stat about{};
  if (!fd || ::fstat(fd.get(), &about) != 0) return nullptr;
  if (about.st_size < static_cast<off_t>(sizeof(FaultPage)) && ::ftruncate(fd.get(), sizeof(FaultPage)) != 0)
    return nullptr;
  void* at = ::mmap(nullptr, sizeof(FaultPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  return at == MAP_FAILED ? nullptr : static_cast<FaultPage*>(at);
}

struct Unmap {
  void operator()(FaultPage* page) const { ::munmap(page, sizeof *page); }
};
using OwnPage = std::unique_ptr<FaultPage, Unmap>;

}  // namespace

namespace faults_detail {

constinit std::atomic<const std::atomic<std::uint32_t>*> page_epoch{&no_page};
constinit std::atomic<std::uint32_t> quiet_epoch{0};
constinit thread_local bool ends_context = false;

std::uint32_t act(const char* function, std::uint32_t device) {
  const Armed* armed = rules_in_force();
  if (armed == nullptr) return 0;
  std::uint32_t answer = 0;
  ends_context = false;
  for (std::size_t i = 0; i < armed->rules.rules.size(); ++i) {
    const FaultRule& rule = armed->rules.rules[i];
    if (rule.device != device || !rule.matches(function)) continue;
    const std::uint64_t earlier = armed->met[i].fetch_add(1, std::memory_order_relaxed);
    if (earlier < rule.after || earlier - rule.after >= rule.count) continue;
    if (i + 1 < kCounted) count_hit(i);
    if (rule.delay_us != 0) sleep_us(rule.delay_us);
    if (rule.slow_us != 0) spend_us(rule.slow_us);
    if (answer != 0) continue;
    answer = rule.fail_code;
    ends_context = rule.sticky;
  }
  return answer;
}

bool lost(std::uint32_t device) {
  const Armed* armed = rules_in_force();
  const bool gone = armed != nullptr && device < 32 && (armed->rules.lost_devices >> device & 1) != 0;
  if (gone) count_hit(kCounted - 1);
  return gone;
}

}  // namespace faults_detail

InjectedXid injected_xid(std::uint32_t device) {
  const Armed* armed = rules_in_force();
  const std::uint32_t epoch = current_epoch.load(std::memory_order_acquire);
  return {epoch, armed != nullptr && device < kMaxDevices ? armed->rules.xids[device] : 0};
}

Result<bool> open_faults(const std::string& node_directory) {
  const char* text = std::getenv(kFaultVariable);
  auto rules = parse_faults(text == nullptr ? "" : text);
  if (!rules) return fail(rules.error().code, message(kFaultVariable, ": ", rules.error().message), rules.error().hint);
  const std::lock_guard lock(reading);
  from_environment = std::move(*rules);
  // The mapping stays until the process ends, because a call in another thread may be reading it.
  if (const FaultPage* page = map_page(node_directory))
    faults_detail::page_epoch.store(&page->epoch, std::memory_order_release);
  install(from_environment, 0);
  reread(faults_detail::page_epoch.load(std::memory_order_acquire));
  return true;
}

Result<std::vector<std::uint64_t>> fault_hits(const std::string& node_directory) {
  const OwnPage page(map_page(node_directory));
  if (page == nullptr) return fail_errno("cannot map " + node_directory + "/faults", errno);
  std::vector<std::uint64_t> hits;
  for (const auto& one : page->hits) hits.push_back(one.load(std::memory_order_relaxed));
  return hits;
}

Result<bool> write_faults(const std::string& node_directory, std::string_view rules) {
  TRY(parse_faults(rules));
  const std::string path = node_directory + "/faults";
  const UniqueFd fd = out_of_the_way(UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)));
  if (!fd) return fail_errno("cannot open " + path, errno);
  if (::flock(fd.get(), LOCK_EX) != 0) return fail_errno("cannot lock " + path, errno);
  const OwnPage page(map_page(node_directory));
  if (page == nullptr) return fail_errno("cannot map " + path, errno);
  if (rules.size() > page->text.size())
    return fail(ErrorCode::usage, message("the fault rules are ", rules.size(), " bytes long"),
                message("at most ", page->text.size()));
  const std::uint32_t before = page->epoch.load(std::memory_order_relaxed) & ~1U;
  page->epoch.store(before + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(page->text.data(), rules.data(), rules.size());
  page->length_bytes = static_cast<std::uint32_t>(rules.size());
  for (auto& hits : page->hits) hits.store(0, std::memory_order_relaxed);
  page->epoch.store(before + 2, std::memory_order_release);
  return true;
}

}  // namespace headgate::sim
