#include "page_liar.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <iterator>
#include <random>
#include <vector>

#include "base/now.hpp"
#include "base/unique_fd.hpp"
#include "guest/ledger/account.hpp"
#include "guest/ledger/gpu_page.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/ledger/registration.hpp"
#include "guest/ledger/slot.hpp"

namespace headgate::e2e {
namespace {

using Random = std::mt19937_64;

void rest_us(long microseconds) {
  const timespec time{microseconds / 1'000'000, microseconds % 1'000'000 * 1000};
  ::nanosleep(&time, nullptr);
}

UniqueFd connected(const std::string& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory + "/" + ledger::kTenantSocket;
  if (path.size() >= sizeof address.sun_path) return {};
  path.copy(address.sun_path, path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket.reset();
  return socket;
}

ledger::Hello hello() {
  const ledger::Identity self = ledger::own_identity();
  return {ledger::head_of<ledger::Hello>(ledger::MessageType::hello), self.pid, self.pidns_inode, self.start_time,
          ledger::kVersion};
}

struct Inside {
  UniqueFd usage_fd, bell;
  ledger::SharePages pages;
  ledger::GpuPage* marks = nullptr;  // of the share's first GPU
  ledger::SlotRef slot;
};

bool enter(const std::string& directory, Inside& in) {
  const UniqueFd socket = connected(directory);
  const ledger::Hello greeting = hello();
  if (!socket || ::send(socket.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) return false;
  ledger::Welcome welcome{};
  std::array<int, ledger::kMaxWelcomeDescriptors> fds{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  iovec part{&welcome, sizeof welcome};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  if (::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC) != sizeof welcome) return false;
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  if (rights == nullptr || rights->cmsg_len < CMSG_LEN(sizeof(int) * ledger::kWelcomeDescriptors) ||
      rights->cmsg_len > CMSG_LEN(sizeof fds))
    return false;
  std::memcpy(fds.data(), CMSG_DATA(rights), rights->cmsg_len - CMSG_LEN(0));
  in.usage_fd = UniqueFd(fds[1]);
  in.bell = UniqueFd(fds[2]);
  if (ledger::map_pages(fds[0], fds[1], in.pages)) return false;
  // The share's page of marks follows the node page.
  void* const marks = rights->cmsg_len < CMSG_LEN(5 * sizeof(int))
                          ? MAP_FAILED
                          : ::mmap(nullptr, sizeof(ledger::GpuPage), PROT_READ | PROT_WRITE, MAP_SHARED, fds[4], 0);
  if (marks == MAP_FAILED) return false;
  in.marks = static_cast<ledger::GpuPage*>(marks);
  if (ledger::claim_for_self(*in.pages.usage, in.slot) != ledger::ClaimResult::claimed) return false;
  (void)ledger::reserve(*in.pages.usage, 0, in.slot, 100 << 20, 1ull << 40);
  const ledger::Claimed claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed), in.slot.slot,
                                in.slot.generation};
  if (::send(socket.get(), &claimed, sizeof claimed, MSG_NOSIGNAL) != sizeof claimed) return false;
  ledger::Seated seated{};
  return ::recv(socket.get(), &seated, sizeof seated, 0) == sizeof seated;
}

std::uint64_t any_value(Random& random) {
  constexpr std::uint64_t kEdges[] = {0,
                                      1,
                                      2,
                                      255,
                                      256,
                                      257,
                                      0x7fff'ffff,
                                      0x8000'0000,
                                      0xffff'ffff,
                                      1ull << 32,
                                      (1ull << 48) - 1,
                                      1ull << 48,
                                      1ull << 62,
                                      1ull << 63,
                                      (1ull << 63) - 1,
                                      ~0ull};
  switch (random() % 4) {
    case 0: return kEdges[random() % std::size(kEdges)];
    case 1: return random();
    case 2: return random() >> random() % 64;
    default: return random() % 300;
  }
}

[[noreturn]] void scribble(Inside& in, Random& random) {
  auto* const marked = reinterpret_cast<volatile std::uint64_t*>(in.marks);
  constexpr std::size_t kMarks = sizeof(ledger::GpuPage) / 8, kSeats = offsetof(ledger::GpuPage, marks) / 8;
  auto* const words = reinterpret_cast<volatile std::uint64_t*>(in.pages.usage);
  constexpr std::size_t kAll = sizeof(ledger::UsagePage) / 8, kAccounts = offsetof(ledger::UsagePage, compute) / 8,
                        kSlots = offsetof(ledger::UsagePage, slots) / 8, kSlot = sizeof(ledger::Slot) / 8;
  for (;;) {
    for (int n = 0; n < 2000; ++n) {
      // Writes to the header and accounts, the first slots, or anywhere.
      const std::size_t at = random() % 3 == 0   ? random() % kAccounts
                             : random() % 2 == 0 ? kSlots + random() % (4 * kSlot)
                                                 : random() % kAll;
      words[at] = any_value(random);
      marked[random() % (random() % 2 == 0 ? kSeats : kMarks)] = any_value(random);
      // Makes the marks look recent, because the daemon copies only those.
      in.marks->seen_ns = in.marks->seats[random() % ledger::kMaxSeats].seen_ns =
          static_cast<std::int64_t>(steady_now_ns());
      // Slots in the names of existing processes, including this one.
      if (random() % 64 == 0) {
        auto& slot = in.pages.usage->slots[random() % ledger::kMaxSlots];
        const ledger::Identity self = ledger::own_identity();
        slot.who = std::uint64_t{self.pidns_inode} << 32 | (random() % 2 == 0 ? self.start_time : 0);
        const std::uint64_t pid = random() % 2 == 0 ? self.pid : random() % 400;
        slot.life = pid << 32 | (random() % 100) << 4 | random() % 5;
      }
    }
    rest_us(500);
  }
}

[[noreturn]] void resize(Inside& in, Random& random) {
  for (;;) {
    const off_t length = random() % 2 == 0 ? static_cast<off_t>(random() % sizeof(ledger::UsagePage))
                                           : static_cast<off_t>(sizeof(ledger::UsagePage) + random() % (8 << 20));
    (void)!::ftruncate(in.usage_fd.get(), length);
    if (random() % 8 == 0) (void)!::ftruncate(in.usage_fd.get(), sizeof(ledger::UsagePage));
    rest_us(static_cast<long>(random() % 2000));
  }
}

// Starts a child with many mappings, none of them the page; returns its identity.
ledger::Identity start_burdened_child(Inside& in) {
  constexpr std::size_t kMappings = 60'000, kPage = 4096;
  int told[2];
  if (::pipe2(told, O_CLOEXEC) != 0) return {};
  if (::fork() == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ledger::close_pages(in.pages);
    in.usage_fd.reset();
    auto* const all = static_cast<char*>(
        ::mmap(nullptr, kMappings * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    // Neighbouring pages with different permissions are separate mappings.
    for (std::size_t page = 0; page < kMappings; page += 2) (void)!::mprotect(all + page * kPage, kPage, PROT_READ);
    const ledger::Identity self = ledger::own_identity();
    (void)!::write(told[1], &self, sizeof self);
    for (;;) ::pause();
  }
  ::close(told[1]);
  ledger::Identity child{};
  (void)!::read(told[0], &child, sizeof child);
  ::close(told[0]);
  return child;
}

[[noreturn]] void take_back_gpu_time(Inside& in) {
  for (;;) {
    in.pages.usage->compute[0].held_ns = 0;
    rest_us(500);
  }
}

[[noreturn]] void claim_for(const ledger::Identity& child, Inside& in) {
  for (;;) {
    for (std::uint32_t i = 0; i < ledger::kMaxSlots; ++i) {
      auto& slot = in.pages.usage->slots[i];
      const std::uint64_t life = slot.life;
      if (i == in.slot.slot || (life & 0xf) != static_cast<std::uint64_t>(ledger::SlotKind::free)) continue;
      slot.who = std::uint64_t{child.pidns_inode} << 32 | child.start_time;
      slot.life = std::uint64_t{child.pid} << 32 | (((life >> 4) + 1) & 0xfff'ffff) << 4 |
                  static_cast<std::uint64_t>(ledger::SlotKind::live);
    }
    in.pages.usage->slots_seen = ledger::kMaxSlots;
    rest_us(5000);
  }
}

void send_with_descriptors(int socket, const std::string& bytes, int count) {
  const std::vector<int> fds(static_cast<std::size_t>(count), STDIN_FILENO);
  std::vector<char> control(CMSG_SPACE(sizeof(int) * fds.size()));
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
  std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  (void)::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::string any_message(Random& random) {
  const ledger::Hello good = hello();
  std::string bytes(reinterpret_cast<const char*>(&good), sizeof good);
  switch (random() % 6) {
    case 0: break;  // a valid one
    case 1: bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8); break;
    case 2: bytes.resize(random() % bytes.size()); break;
    case 3: bytes.append(random() % 60'000, 'x'); break;
    case 4: {
      bytes.resize(random() % 300);
      for (char& c : bytes) c = static_cast<char>(random());
      break;
    }
    default: {
      const ledger::Claimed claimed{ledger::head_of<ledger::Claimed>(ledger::MessageType::claimed),
                                    static_cast<std::uint32_t>(any_value(random)),
                                    static_cast<std::uint32_t>(any_value(random))};
      bytes.assign(reinterpret_cast<const char*>(&claimed), sizeof claimed);
    }
  }
  return bytes;
}

[[noreturn]] void babble(const std::string& directory, Random& random) {
  std::vector<UniqueFd> silent;  // never send or read again
  for (;;) {
    UniqueFd socket = connected(directory);
    if (!socket) {
      rest_us(1000);
      continue;
    }
    for (std::uint64_t n = random() % 4; n > 0; --n) {
      const std::string bytes = any_message(random);
      if (random() % 4 == 0) send_with_descriptors(socket.get(), bytes, 1 + static_cast<int>(random() % 8));
      else (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (random() % 4 == 0) ::shutdown(socket.get(), random() % 2 == 0 ? SHUT_WR : SHUT_RD);
    if (random() % 4 == 0) silent.push_back(std::move(socket));
    if (silent.size() > 300) silent.clear();
    rest_us(static_cast<long>(random() % 500));
  }
}

}  // namespace

pid_t start_liar(const std::string& directory, Lie lie, std::uint64_t seed) {
  int told[2];
  if (::pipe2(told, O_CLOEXEC) != 0) return -1;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_NAME, "li\x1b[2Jar\n");
    ::alarm(120);
    Random random(seed);
    Inside in;
    if (!enter(directory, in)) ::_exit(1);
    const ledger::Identity child = lie == Lie::claims ? start_burdened_child(in) : ledger::Identity{};
    (void)!::write(told[1], "x", 1);
    switch (lie) {
      case Lie::claims: claim_for(child, in);
      case Lie::words: scribble(in, random);
      case Lie::length: resize(in, random);
      case Lie::unpaid: take_back_gpu_time(in);
      case Lie::messages: babble(directory, random);
      case Lie::quiet: in.pages.usage->memory[0].word.used_bytes = 0; break;
      case Lie::bell: ::shutdown(in.bell.get(), SHUT_RDWR); break;
      case Lie::none: break;
    }
    for (;;) ::pause();
  }
  ::close(told[1]);
  char byte = 0;
  const bool begun = ::read(told[0], &byte, 1) == 1;
  ::close(told[0]);
  if (begun) return pid;
  ::waitpid(pid, nullptr, 0);
  return -1;
}

void end_liar(pid_t liar) {
  if (liar <= 0) return;
  ::kill(liar, SIGKILL);
  ::waitpid(liar, nullptr, 0);
}

}  // namespace headgate::e2e
