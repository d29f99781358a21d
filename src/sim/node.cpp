#include "sim/node.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "guest/bare/clock.hpp"
#include "sim/message.hpp"
#include "sim/node_file.hpp"
#include "sim/out_of_the_way.hpp"
#include "sim/process_identity.hpp"

namespace headgate::sim {
namespace {

constexpr std::uint64_t kReapNs = 25'000'000;
constexpr long kOwnerMayBeStoppedNs = 20'000'000;
constexpr struct flock kFirstByte{.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1, .l_pid = 0};

long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, word, operation, value, timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
}

// The program's thread has a default slack of 50 us, which would make every wait late.
class TightTimer {
 public:
  TightTimer() : slack_(::prctl(PR_GET_TIMERSLACK)) { ::prctl(PR_SET_TIMERSLACK, 1); }
  ~TightTimer() {
    if (slack_ > 0) ::prctl(PR_SET_TIMERSLACK, slack_);
  }

 private:
  int slack_;
};

}  // namespace

std::uint64_t clock_ns() { return static_cast<std::uint64_t>(bare::host_ns()); }

Node::~Node() {
  detach();
  if (file_) ::munmap(file_, sizeof(NodeFile));
}

const Profile& Node::profile() const { return state_->profile; }

// A real driver holds its lock in the kernel, so SIGSTOP takes effect after the call. Our lock is held in user space.
// If its owner is stopped, the waiter resumes it until it has released the lock.
int Node::let_stopped_owner_finish() const {
  const int process = stopped_process_of(file_->mutex.__data.__owner);
  const auto is_client = [&](const Process& known) {
    return known.used && known.pid == process && known.pid_namespace == own_pid_namespace();
  };
  // In another pid namespace the number would mean a different process.
  const bool known = process != 0 && std::any_of(state_->processes, state_->processes + kMaxProcesses, is_client);
  return known && ::kill(process, SIGCONT) == 0 ? process : 0;
}

// Ends the process with this message: lock() returns no error, and no call can continue without the node.
void Node::end_if_damaged() const {
  if (!is_damaged(*file_)) return;
  std::fprintf(
      stderr,
      "headgate simulator: %s/node is damaged: something else has written into it; end what uses the node and remove "
      "the file; the next program makes a new one\n",
      directory_.c_str());
  ::_exit(exit_status(ErrorCode::failed));
}

void Node::lock() {
  end_if_damaged();
  int error = pthread_mutex_trylock(&file_->mutex);
  int helped = 0;
  while (error == EBUSY || error == ETIMEDOUT) {
    if (error == ETIMEDOUT && helped == 0) helped = let_stopped_owner_finish();
    timespec until{};  // ThreadSanitizer of gcc 12 does not support pthread_mutex_clocklock
    ::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += kOwnerMayBeStoppedNs;
    if (until.tv_nsec >= 1'000'000'000) until.tv_sec += 1, until.tv_nsec -= 1'000'000'000;
    error = pthread_mutex_timedlock(&file_->mutex, &until);
  }
  if (helped != 0) ::kill(helped, SIGSTOP);
  if (error == EOWNERDEAD) {
    static_cast<FileJournal&>(*journal_).undo();
    for (Ready& known : state_->ready) known.number = 0;
    file_->reaped_ns = 0;  // a process died: look for it at once
    pthread_mutex_consistent(&file_->mutex);
  }
}

void Node::unlock() { pthread_mutex_unlock(&file_->mutex); }

Node::Locked::Locked(Node& node)
    : node_((node.lock(), node)), engine_(*node.state_, node.journal_.get()), changes_(node.state_->changes) {}

Node::Locked::~Locked() {
  const bool changed = node_.state_->changes != changes_;
  node_.unlock();
  if (changed) node_.wake();
}

void Node::wake() {
  file_->word.fetch_add(1, std::memory_order_release);
  futex(&file_->word, FUTEX_WAKE, INT32_MAX, nullptr);
}

// Dead processes are found within 25 ms of any call; their queued work runs no longer than that.
void Node::advance_locked(Engine& engine) {
  const std::uint64_t now = clock_ns();
  if (now - std::min(now, looked_ns_) >= kReapNs) {
    looked_ns_ = now;
    struct stat status{};
    if (::fstat(fd_.get(), &status) == 0 && status.st_nlink == 0) removed_.store(true, std::memory_order_relaxed);
  }
  if (now - std::min(now, file_->reaped_ns) >= kReapNs) {
    engine.advance(std::min(now, engine.now_ns() + kReapNs));
    reap_locked(engine);
    file_->reaped_ns = now;
  }
  engine.advance(now);
}

// The record lock shows if the process lives. Do not open our own file: closing it would drop our lock.
bool Node::gone(std::uint32_t p) const {
  const Process& process = state_->processes[p];
  const bool ours =
      process.pid == ::getpid() && process.image == own_image() && process.pid_namespace == own_pid_namespace();
  if (p == process_ || ours) return false;
  UniqueFd fd =
      out_of_the_way(UniqueFd(::open(message(directory_, "/clients/", p).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)));
  if (!fd) return errno == ENOENT;
  struct flock probe = kFirstByte;
  return ::fcntl(fd.get(), F_GETLK, &probe) == 0 && probe.l_type == F_UNLCK;
}

void Node::reap_locked(Engine& engine) {
  for (std::uint32_t p = 0; p < kMaxProcesses; ++p) {
    if (state_->processes[p].used && gone(p)) engine.close_process(p);
  }
  for (std::uint32_t m = 0; m < state_->shared_limit; ++m) {
    if (state_->shared[m].used && state_->shared[m].account == kNone) settle_shared(engine, m);
  }
}

void Node::reap() {
  Advanced locked(*this);
  reap_locked(locked.engine());
}

Result<std::uint32_t> Node::attach(std::uint32_t mps_percent) {
  OwnIdentity identity = own_identity();
  identity.identity.mps_percent = mps_percent;
  Advanced locked(*this);
  std::uint32_t p = locked->open_process(identity.view());
  if (p == kNone) {
    reap_locked(locked.engine());
    p = locked->open_process(identity.view());
  }
  if (p == kNone)
    return fail(ErrorCode::no_capacity, message("the simulated node holds ", kMaxProcesses, " processes already"));
  const std::string path = message(directory_, "/clients/", p);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    ::unlink(path.c_str());  // another user's, left by a dead process: the slot was free
    fd = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    give_to_all_of(message(directory_, "/clients"), fd);
  }
  fd = out_of_the_way(std::move(fd));
  if (!fd || ::fcntl(fd.get(), F_SETLK, &kFirstByte) != 0) {
    const int error = errno;
    locked->close_process(p);
    return fail_errno(message("cannot lock ", path), error, "the node's directory must be writable");
  }
  client_fd_ = std::move(fd);
  process_ = p;
  return p;
}

void Node::detach() {
  if (process_ == kNone) return;
  {
    Advanced locked(*this);
    client_fd_.reset();  // first: the next process of this slot locks the same file
    locked->close_process(process_);
  }
  process_ = kNone;
}

void Node::forget_after_fork() {
  process_ = kNone;
  client_fd_.reset();
}

void Node::sleep(std::uint32_t word, std::uint64_t until_ns) {
  const auto own_ns = bare::own_ns(static_cast<std::int64_t>(std::min<std::uint64_t>(until_ns, INT64_MAX)));
  const timespec until{own_ns / 1'000'000'000, own_ns % 1'000'000'000};
  const int saved = errno;
  futex(&file_->word, FUTEX_WAIT_BITSET, word, &until);  // absolute, CLOCK_MONOTONIC
  errno = saved;
}

bool Node::wait_completed(std::uint32_t stream, std::uint64_t number, std::uint64_t timeout_ns) {
  const std::uint64_t begin = clock_ns();
  const std::uint64_t give_up = timeout_ns > kNever - begin ? kNever : begin + timeout_ns;
  std::unique_ptr<TightTimer> timer;
  while (true) {
    std::uint32_t word;
    std::uint64_t until;
    {
      Advanced locked(*this);
      if (locked->completed(stream) >= number) return true;
      word = file_->word.load(std::memory_order_acquire);
      until = locked->earliest_finish_ns(stream, number);
      if (until == kNever || until <= locked->now_ns()) {
        file_->sleepers.store(1, std::memory_order_relaxed);
        until = locked->next_change_ns();
      }
      until = std::min(until, locked->now_ns() + kReapNs);
    }
    if (clock_ns() >= give_up) return false;
    if (!timer) timer = std::make_unique<TightTimer>();
    sleep(word, std::min(until, give_up));
  }
}

void Node::sleep_until(std::uint64_t until_ns) {
  const std::uint32_t word = file_->word.load(std::memory_order_acquire);
  file_->sleepers.store(1, std::memory_order_relaxed);
  const TightTimer timer;
  sleep(word, std::min(until_ns, clock_ns() + kReapNs));
}

void Node::pushed() {
  if (file_->sleepers.load(std::memory_order_relaxed) == 0) return;
  if (file_->sleepers.exchange(0, std::memory_order_relaxed) != 0) wake();
}

bool Node::back(const void* what, std::size_t bytes) {
  const auto offset =
      static_cast<off_t>(static_cast<const std::byte*>(what) - reinterpret_cast<const std::byte*>(file_));
  return ::posix_fallocate(fd_.get(), offset, static_cast<off_t>(bytes)) == 0;
}

bool Node::back_stream(std::uint32_t stream) { return back(&state_->rings[stream], sizeof(Ring)); }
bool Node::back_account(std::uint32_t account) { return back(&state_->history[account], sizeof(History)); }

}  // namespace headgate::sim
