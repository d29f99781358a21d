#include "guest/limiter/session/registration.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "guest/bare/clock.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/bare/text.hpp"
#include "guest/ledger/directory.hpp"
#include "guest/ledger/node_page.hpp"
#include "guest/ledger/registration.hpp"
#include "guest/limiter/session/gpu_pages.hpp"
#include "guest/limiter/session/node_page.hpp"
#include "guest/limiter/session/session.hpp"

namespace headgate::limiter {
namespace {

using ledger::Descriptor;

// Identifies the descriptor's file. A program may close all descriptors it finds, and the number is then reused.
struct Bell {
  std::atomic<int> fd{-1};
  std::atomic<std::uint64_t> device{0}, inode{0};
  std::atomic<bool> dead{false};
  std::atomic<bool> no_listener{false};  // result of the last request for another bell
  std::atomic<std::int64_t> renewed_ns{0}, answered_ns{0}, pause_ns{kFirstRenewalPauseNs};
};
Bell bell;
constexpr std::int64_t kRenewNs = 20'000'000;
// Path of the share's directory; empty if no other bell can be requested.
char home[512];

bool still_ours(int fd) {
  struct stat status{};
  // By system call: GLIBC 2.17 has no fstat() symbol.
  return fd >= 0 && ::syscall(SYS_fstat, fd, &status) == 0 && S_ISSOCK(status.st_mode) &&
         status.st_dev == bell.device.load(std::memory_order_relaxed) &&
         status.st_ino == bell.inode.load(std::memory_order_relaxed);
}

// Keeps the bell at a high number, for programs that rely on low ones. A forked child has its parent's bell, which is
// for the same share.
void keep_bell(int fd) {
  const int former = bell.fd.exchange(-1);
  if (still_ours(former)) ::close(former);
  constexpr int kOutOfTheWay = 100;
  struct stat status{};
  int kept = ::fcntl(fd, F_DUPFD_CLOEXEC, kOutOfTheWay);
  if (kept < 0) kept = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (kept < 0 || ::syscall(SYS_fstat, kept, &status) != 0) return;
  bell.device.store(status.st_dev, std::memory_order_relaxed);
  bell.inode.store(status.st_ino, std::memory_order_relaxed);
  bell.dead.store(false);
  bell.fd.store(kept);
}

// Returns NAME of BASE/shares/NAME; an absolute path.
std::string_view name_in(const char* directory) {
  std::size_t end = strlen(directory);
  while (end > 1 && directory[end - 1] == '/') --end;
  std::size_t at = end;
  while (at > 0 && directory[at - 1] != '/') --at;
  return {directory + at, end - at};
}

class Conversation {
 public:
  // `patience_ns`: until a daemon listens; `answer_ns`: for the whole exchange after that.
  Conversation(std::span<char> why, std::int64_t patience_ns, std::int64_t answer_ns, bool insist)
      : why_(why),
        patience_ns_(patience_ns),
        answer_ns_(answer_ns),
        deadline_ns_(bare::now_ns() + patience_ns),
        insist_(insist) {}

  // If too many processes register at once, retries within the time limit: a job starts all its processes at the same
  // moment.
  Registered hold(const char* directory, bool with_slot, ledger::SharePages& pages, ledger::SlotRef& slot) {
    constexpr std::int64_t kLongestPauseNs = 40'000'000;
    for (std::int64_t pause_ns = 5'000'000;; pause_ns = pause_ns < kLongestPauseNs ? 2 * pause_ns : kLongestPauseNs) {
      busy_ = false;
      received_ = 0;
      const Registered outcome = hold_once(directory, with_slot, pages, slot);
      if (!busy_ || !insist_ || bare::now_ns() + pause_ns > deadline_ns_) return outcome;
      const timespec pause{0, static_cast<long>(pause_ns)};
      ::nanosleep(&pause, nullptr);
    }
  }

  // Requests only the bell, for a process with a seat. Returns whether to ask again soon: no daemon was there, or it is
  // another daemon than the last.
  bool take_bell(const char* directory, ledger::SlotRef slot) {
    ledger::SharePages pages;
    const Registered outcome = hold(directory, false, pages, slot);
    if (outcome != Registered::seated) return outcome == Registered::unreachable;
    const bool asks = pages.policy->ask_first.load(std::memory_order_relaxed) != 0;
    ledger::close_pages(pages);
    if (!asks) tell_seat(slot);  // otherwise a scheduler would be asked about it again
    return !same_daemon_;
  }
  // Returns whether no daemon accepted the connection. One that accepts but does not answer exists.
  [[nodiscard]] bool no_listener() const { return no_listener_; }

 private:
  Registered hold_once(const char* directory, bool with_slot, ledger::SharePages& pages, ledger::SlotRef& slot) {
    Registered outcome = connect(directory);
    if (outcome != Registered::seated) return outcome;
    bool lacked = false;
    const ledger::Identity self = ledger::own_identity(&lacked);
    if (lacked) return cannot("read /proc/self/stat", EMFILE);
    const ledger::Hello hello{ledger::head_of<ledger::Hello>(ledger::MessageType::hello), self.pid, self.pidns_inode,
                              self.start_time, ledger::kVersion};
    ledger::Welcome welcome{};
    outcome = ask(hello, ledger::MessageType::welcome, welcome);
    if (outcome != Registered::seated) return outcome;
    outcome = map(welcome, pages);
    if (outcome != Registered::seated || !with_slot) return outcome;
    outcome = take_seat(pages, slot);
    if (outcome != Registered::seated) {
      if (slot.slot != ledger::kNoSlot) ledger::release(*pages.usage, slot);
      ledger::close_pages(pages);
      slot = {};
    }
    return outcome;
  }

  Registered unreachable(const char* what) {
    bare::Text(why_).add("headgated ").add(what);
    return Registered::unreachable;
  }
  Registered refused(std::string_view what) {
    bare::Text(why_).add_printable(what);
    return Registered::refused;
  }

  // This process lacks a resource or permission. A process must not leave its share by lowering a limit on itself.
  Registered cannot(const char* what, int error) {
    bare::Text text(why_);
    text.add("this process cannot ").add(what).add(": ");
    switch (error) {
      case EMFILE: text.add("it has as many files open as it may; raise its limit (ulimit -n)"); break;
      case ENFILE: text.add("the machine has as many files open as it may; raise fs.file-max"); break;
      case ENOMEM:
      case ENOBUFS: text.add("there is no memory for it"); break;
      case EACCES:
      case EPERM:
      case ENOSYS:
        text.add("it is not permitted (errno ")
            .add_decimal(static_cast<std::uint64_t>(error))
            .add("); look at the directory's mode and at the process's seccomp filter");
        break;
      default: text.add("errno ").add_decimal(static_cast<std::uint64_t>(error)); break;
    }
    return Registered::refused;
  }

  // If a share's directory is gone, the share has ended, with or without a daemon.
  Registered gone(const char* directory) {
    bare::Text(why_).add(
        "the share ", name_in(directory),
        " is gone: its run has ended, or it was removed; start this program by headgate run, in a share "
        "that is there");
    return Registered::refused;
  }

  Registered without_directory(const char* directory, int error) {
    if (error == ENOTDIR) return unreachable("has no directory there");
    if (error != ENOENT) return cannot("open the share's directory", error);
    char parent[256];
    bare::Text(parent).add(
        std::string_view(directory, static_cast<std::size_t>(name_in(directory).data() - directory)));
    if (::access(parent, F_OK) == 0) return gone(directory);
    if (errno != ENOENT) return cannot("look at the runtime directory", errno);
    no_listener_ = true;
    return unreachable("has no runtime directory here");
  }

  // A daemon exists, but may be busy. The longer deadline starts once, not at each attempt.
  void somebody_listens() {
    if (!listened_) deadline_ns_ = bare::now_ns() + answer_ns_;
    listened_ = true;
  }

  // Returns what poll() returns.
  int wait_for(short event) {
    for (;;) {
      const std::int64_t left_ms = (deadline_ns_ - bare::now_ns()) / 1'000'000;
      pollfd ready{socket_.get(), event, 0};
      const int count = left_ms <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left_ms));
      if (count >= 0 || errno != EINTR) return count;
    }
  }

  // A restarting daemon binds its socket again: wait for it, within the time limit.
  Registered connect(const char* directory) {
    const Descriptor folder(::open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) return without_directory(directory, errno);
    if (ledger::is_removed(folder.get())) return gone(directory);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    bare::Text path(address.sun_path);
    path.add(directory).add('/').add(ledger::kTenantSocket);
    if (path.full())  // too long for an address: go through the directory's descriptor
      bare::Text(address.sun_path)
          .add("/proc/self/fd/")
          .add_decimal(static_cast<std::uint64_t>(folder.get()))
          .add('/')
          .add(ledger::kTenantSocket);
    for (const std::int64_t give_up_ns = bare::now_ns() + patience_ns_;;) {
      socket_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket_.valid()) return cannot("make a socket", errno);
      const bool connected = ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
      const bool full = !connected && errno == EAGAIN;  // the kernel's accept queue is full
      if (connected || full) somebody_listens();
      if (connected) return Registered::seated;
      const bool passing = full || errno == ECONNREFUSED || errno == ENOENT || errno == EINTR;
      if (!passing) return cannot("connect to headgated", errno);
      if (ledger::is_removed(folder.get())) return gone(directory);
      if (!insist_ || bare::now_ns() > (full ? deadline_ns_ : give_up_ns)) {
        no_listener_ = !full;
        return unreachable("does not accept connections");
      }
      const timespec pause{0, 5'000'000};
      ::nanosleep(&pause, nullptr);
    }
  }

  // Sends one message and receives the answer, of `type` or a refusal; keeps descriptors that come with it.
  template <typename Say, typename Hear>
  Registered ask(const Say& say, ledger::MessageType type, Hear& heard) {
    if (::send(socket_.get(), &say, sizeof say, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof say) && errno != EPIPE &&
        errno != ECONNRESET)
      return errno == EAGAIN || errno == EINTR ? unreachable("does not listen") : cannot("send to headgated", errno);
    // Continue after EPIPE: a daemon that refuses sends the reason before it hangs up.
    alignas(8) char bytes[sizeof(ledger::Refuse)];
    ssize_t length;
    ledger::MessageHead head;
    bool whole;
    do {
      do {
        const int ready = wait_for(POLLIN);
        if (ready < 0) return cannot("wait for headgated", errno);
        if (ready == 0) return unreachable("does not answer");
        length = receive(bytes, sizeof bytes);
        // A refusal crossed our message: Linux reports the reset once, then delivers what was sent before it.
      } while (length < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET));
      if (length < 0) return cannot("receive from headgated", errno);
      if (length == 0) return unreachable("hung up");
      head = {};
      if (length >= static_cast<ssize_t>(sizeof head)) memcpy(&head, bytes, sizeof head);
      whole = head.magic == ledger::kRegistrationMagic && head.bytes == length;
    } while (whole && head.type == ledger::MessageType::hold && length == sizeof(ledger::Hold) && hold_on(bytes));
    if (whole && head.type == ledger::MessageType::refuse && length == sizeof(ledger::Refuse)) {
      ledger::Refuse no;
      memcpy(static_cast<void*>(&no), bytes, sizeof no);
      no.text[sizeof no.text - 1] = '\0';
      busy_ = no.code == ledger::Refusal::busy;
      return refused(no.text);
    }
    if (!whole || head.version != ledger::kRegistrationVersion || head.type != type || length != sizeof heard)
      return refused("headgated answered what is no message of ours");
    memcpy(static_cast<void*>(&heard), bytes, sizeof heard);
    return Registered::seated;
  }

  // Only once: a daemon that repeats Hold cannot delay a process for ever.
  bool hold_on(const char* bytes) {
    ledger::Hold hold;
    memcpy(static_cast<void*>(&hold), bytes, sizeof hold);
    if (held_ || hold.patience_ms > ledger::kLongestHoldMs) return false;
    held_ = true;
    deadline_ns_ = bare::now_ns() + hold.patience_ms * 1'000'000ll;
    return true;
  }

  ssize_t receive(char* bytes, std::size_t size) {
    iovec part{bytes, size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * ledger::kMaxWelcomeDescriptors)];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t length = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (length <= 0) return length;
    truncated_ = (header.msg_flags & MSG_CTRUNC) != 0;
    for (cmsghdr* part_of = CMSG_FIRSTHDR(&header); part_of != nullptr; part_of = CMSG_NXTHDR(&header, part_of)) {
      if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd;
        memcpy(&fd, CMSG_DATA(part_of) + i * sizeof fd, sizeof fd);
        if (received_ < ledger::kMaxWelcomeDescriptors) descriptors_[received_++].reset(fd);
        else ::close(fd);
      }
    }
    return length;
  }

  Registered map(const ledger::Welcome& welcome, ledger::SharePages& pages) {
    if (received_ < ledger::kWelcomeDescriptors || (truncated_ && received_ < ledger::kMaxWelcomeDescriptors))
      return cannot("take the descriptors that headgated hands out", EMFILE);
    if (const ledger::PageFault bad = ledger::map_pages(descriptors_[0].get(), descriptors_[1].get(), pages)) {
      ledger::explain(bad, why_.data(), why_.size());
      return Registered::refused;
    }
    const bool named = memchr(welcome.share, 0, sizeof welcome.share) != nullptr &&
                       strcmp(welcome.share, ledger::grant_of(*pages.policy).name) == 0;
    if (!named || welcome.generation != pages.policy->generation) {
      ledger::close_pages(pages);
      return refused("headgated handed out the pages of another share");
    }
    keep_bell(descriptors_[2].get());
    take_node_page(descriptors_[3].get());
    same_daemon_ = !take_gpu_pages(*pages.policy, descriptors_[4].get(), std::span(descriptors_).subspan(5));
    return Registered::seated;
  }

  Registered take_seat(ledger::SharePages& pages, ledger::SlotRef& slot) {
    if (ledger::is_draining(*pages.policy)) return refused(ledger::kDrainingWords);
    switch (ledger::claim_for_self(*pages.usage, slot)) {
      case ledger::ClaimResult::claimed: break;
      case ledger::ClaimResult::full: return refused("every slot of the share is taken");
      case ledger::ClaimResult::closing: return refused("the share is being removed");
      case ledger::ClaimResult::unnamed: return cannot("read /proc/self/stat", EMFILE);
    }
    const Registered outcome = tell_seat(slot);
    if (outcome == Registered::unreachable && pages.policy->ask_first.load(std::memory_order_acquire) != 0)
      return refused("the share asks a scheduler about each process, and headgated did not bring its answer");
    // The seat is ours by the pages' rules; if the daemon died just now, its successor finds the seat.
    return outcome == Registered::unreachable ? Registered::seated : outcome;
  }

  Registered tell_seat(ledger::SlotRef slot) {
    const ledger::Claimed claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed), slot.slot,
                                  slot.generation};
    ledger::Seated seated{};
    return ask(claimed, ledger::MessageType::seated, seated);
  }

  std::span<char> why_;
  const std::int64_t patience_ns_, answer_ns_;
  std::int64_t deadline_ns_;
  bool listened_ = false, same_daemon_ = false, no_listener_ = false;
  bool insist_;  // retry if no daemon accepts connections yet, or too many processes register
  Descriptor socket_;
  Descriptor descriptors_[ledger::kMaxWelcomeDescriptors];
  std::uint32_t received_ = 0;
  bool held_ = false, busy_ = false;
  bool truncated_ = false;  // the last message had more descriptors than fit
};

}  // namespace

Registered register_at(const char* directory, bool with_slot, ledger::SharePages& pages, ledger::SlotRef& slot,
                       std::span<char> why) {
  const bare::KeepErrno keep_errno;
  const Registered outcome =
      Conversation(why, ledger::kRegistrationNs, ledger::kAnswerNs, true).hold(directory, with_slot, pages, slot);
  home[0] = '\0';
  if (strlen(directory) < sizeof home) memcpy(home, directory, strlen(directory) + 1);
  return outcome;
}

namespace {

// Returns false if the other end is closed, the program closed ours, or there was no daemon to give us one. There may
// be one now.
bool ring(ledger::Ring what) {
  const int fd = bell.fd.load(std::memory_order_acquire);
  const bare::KeepErrno keep_errno;
  // send(), not write(): if the number was reused for a file since the check, nothing is written to it.
  const bool heard =
      fd >= 0 && still_ours(fd) &&
      (::send(fd, &what, sizeof what, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 || errno == EAGAIN || errno == EINTR);
  if (!heard && home[0] != '\0') bell.dead.store(true);
  return heard;
}

}  // namespace

void ring_doorbell(ledger::Ring what) { ring(what); }
bool ask_for_reading() { return ring(ledger::Ring::reading); }

bool daemon_hung_up() {
  pollfd bell_of_ours{bell.fd.load(std::memory_order_acquire), 0, 0};
  const bare::KeepErrno keep_errno;
  return still_ours(bell_of_ours.fd) && ::poll(&bell_of_ours, 1, 0) == 1 &&
         (bell_of_ours.revents & (POLLHUP | POLLERR)) != 0;
}

bool doorbell_is_dead() { return bell.dead.load(std::memory_order_relaxed); }

void renew_doorbell() {
  std::int64_t last_ns = bell.renewed_ns.load();
  const std::int64_t now = bare::now_ns();
  const std::int64_t pause_ns = bell.pause_ns.load();
  if (home[0] == '\0' || now - last_ns < pause_ns || !bell.renewed_ns.compare_exchange_strong(last_ns, now)) return;
  const bare::KeepErrno keep_errno;
  char why[512];
  Conversation asked(why, kRenewNs, kRenewNs, false);
  const bool soon = asked.take_bell(home, {session.slot, session.slot_generation});
  bell.no_listener.store(asked.no_listener());
  // Without a listener, asking costs almost nothing. A new daemon also brings new boards, which separate the share's
  // processes from others: a process that got them later than the rest of its share would count as another share's.
  bell.pause_ns.store(soon ? kFirstRenewalPauseNs
                           : next_renewal_pause_ns(pause_ns, now - bell.answered_ns.exchange(now)));
}

bool daemon_is_gone() {
  if (home[0] == '\0') return false;
  const int fd = bell.fd.load(std::memory_order_acquire);
  const bare::KeepErrno keep_errno;
  if (!bell.dead.load(std::memory_order_relaxed) && still_ours(fd) && !daemon_hung_up()) return false;
  renew_doorbell();
  return bell.no_listener.load(std::memory_order_relaxed);
}

}  // namespace headgate::limiter
