// What is said on a share's tenant socket: how a limiter gets its share's pages without a right to any file.
//
//   RUNTIME/shares/NAME/tenant.sock, SOCK_SEQPACKET; the socket that accepts is the share.
//
//   limiter  Hello      who I am, as I see it (the daemon believes the kernel, and compares)
//   daemon   Welcome    with descriptors: policy (read-only), usage, doorbell (a socket); then, as far as the daemon
//                       has them, the node page (node_page.hpp), the share's pages to mark its work on, one behind the
//                       other, and for each of its devices the board of that GPU (gpu_page.hpp);  or Refuse
//   limiter  Claimed    which slot I took; it was taken in the usage page, by the ledger's own rules
//   daemon   Hold       in a share that asks first: somebody outside decides, wait so long  (then Seated, or Refuse)
//   daemon   Seated     the slot is bound to the process's pidfd: its death gives the slot back at once;  or Refuse
//
// Then the limiter closes: a connection ends when a program closes all its descriptors, and lives on in forked
// children, so it says nothing about a process's life. Every message is one of these structs, whole, or the connection
// ends. A forked child and a program after exec() begin anew. Fixed-width types only; both sides take the other for
// hostile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr const char* kTenantSocket = "tenant.sock";
// Beside it, for whoever finds no daemon and may not open the pages: "open" or "closed", the share's fail policy. Mode
// 0644.
inline constexpr const char* kFailPolicyFile = "fail-policy";
inline constexpr std::uint32_t kRegistrationMagic = 0x4847'7267;  // "HGrg"
// Both sides of another version refuse by name; the messages' heads and Refuse stay as they are in all versions.
inline constexpr std::uint32_t kRegistrationVersion = 1;
// How long a limiter waits for a daemon to listen, and for all of it where one does: a daemon that is busy for a moment
// is no reason to run unheld, and one that is stopped keeps nobody for ever. Then it does without.
inline constexpr std::int64_t kRegistrationNs = 200'000'000, kAnswerNs = 2'000'000'000;
// The least and the most; a limiter that knows of fewer than it is sent leaves the rest to the kernel, which closes
// them.
inline constexpr std::uint32_t kWelcomeDescriptors = 3, kMaxWelcomeDescriptors = 5 + kMaxDevices;

// What is said on the doorbell, one a message: a launch waits for its share's turn, memory is lacking, or a new reading
// of the driver is wanted (node_page.hpp).
enum class Ring : char { turn = 't', memory = 'm', reading = 'r' };

enum class MessageType : std::uint32_t { hello = 1, welcome = 2, refuse = 3, claimed = 4, seated = 5, hold = 6 };

struct MessageHead {
  std::uint32_t magic, version;
  MessageType type;
  std::uint32_t bytes;  // of the whole message
};

// 0 where the process cannot know it; what is there must be what the kernel says of the peer.
struct Hello {
  MessageHead head;
  std::uint32_t pid;  // in its own pid namespace
  std::uint32_t pidns_inode, start_time;
  std::uint32_t page_version;  // kVersion of the limiter
};

struct Welcome {
  MessageHead head;
  char share[kNameBytes];
  std::uint64_t generation;  // of both pages
};

enum class Refusal : std::uint32_t {
  version = 1,   // of the protocol or the pages
  not_allowed,   // the peer may not use this share
  not_yours,     // the slot or the identity is not the peer's
  share_ending,  // paused for removal, or its pages cannot be used
  busy,          // too many connections or processes, or headgated lacks something: worth another try
  denied,        // who is asked first has said no, or nothing in time
};

struct Refuse {
  MessageHead head;
  Refusal code;
  char text[236];  // one sentence, terminated
};

struct Claimed {
  MessageHead head;
  std::uint32_t slot, slot_generation;
};

struct Seated {
  MessageHead head;
};

struct Hold {
  MessageHead head;
  std::uint32_t patience_ms;  // until the answer, from now; 1..kLongestHoldMs
  std::uint32_t reserved;
};
inline constexpr std::uint32_t kLongestHoldMs = 3'660'000;

static_assert(sizeof(MessageHead) == 16 && sizeof(Hello) == 32 && sizeof(Welcome) == 88 && sizeof(Refuse) == 256 &&
              sizeof(Claimed) == 24 && sizeof(Seated) == 16 && sizeof(Hold) == 24);
static_assert(offsetof(Welcome, generation) == 80);

template <typename Message>
constexpr MessageHead head_of(MessageType type) {
  return {kRegistrationMagic, kRegistrationVersion, type, static_cast<std::uint32_t>(sizeof(Message))};
}

}  // namespace headgate::ledger
