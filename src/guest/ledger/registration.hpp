// The protocol of a share's tenant socket: a limiter gets its share's pages without access to any file.
//
//   RUNTIME/shares/NAME/tenant.sock, SOCK_SEQPACKET; the accepting socket identifies the share.
//
//   limiter  Hello      its identity as it sees it (the daemon trusts the kernel, and compares)
//   daemon   Welcome    with descriptors: policy (read-only), usage, doorbell (a socket); then, as far as the daemon
//                       has them, the node page (node_page.hpp), the share's pages to mark its work on, one behind the
//                       other, and for each of its devices the board of that GPU (gpu_page.hpp);  or Refuse
//   limiter  Claimed    the slot it took in the usage page, by the ledger's own rules
//   daemon   Hold       in a share that asks first: an outside agent decides; wait this long  (then Seated, or Refuse)
//   daemon   Seated     the slot is bound to the process's pidfd: its death gives the slot back at once;  or Refuse
//
// Then the limiter closes the connection. A connection says nothing about a process's life: a program may close all its
// descriptors, and forked children keep them. Every message is exactly one of these structs, or the connection ends. A
// forked child and a program after exec() start over. Fixed-width types only; each side treats the other as hostile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "guest/ledger/layout.hpp"

namespace headgate::ledger {

inline constexpr const char* kTenantSocket = "tenant.sock";
// Next to the socket: "open" or "closed", the share's fail policy, for limiters that find no daemon and cannot open the
// pages. Mode 0644.
inline constexpr const char* kFailPolicyFile = "fail-policy";
inline constexpr std::uint32_t kRegistrationMagic = 0x4847'7267;  // "HGrg"
// A version mismatch is refused by either side; the messages' heads and Refuse are the same in all versions.
inline constexpr std::uint32_t kRegistrationVersion = 1;
// How long a limiter waits for a daemon to listen, and then for the whole exchange. A briefly busy daemon is no reason
// to run without limits; a stopped one must not block for ever. Then the limiter continues without it.
inline constexpr std::int64_t kRegistrationNs = 200'000'000, kAnswerNs = 2'000'000'000;
// Minimum and maximum. A limiter that expects fewer descriptors than it is sent lets the kernel close the rest.
inline constexpr std::uint32_t kWelcomeDescriptors = 3, kMaxWelcomeDescriptors = 5 + kMaxDevices;

// Messages on the doorbell: a launch waits for its share's turn, memory is lacking, or a new reading of the driver is
// needed (node_page.hpp).
enum class Ring : char { turn = 't', memory = 'm', reading = 'r' };

enum class MessageType : std::uint32_t { hello = 1, welcome = 2, refuse = 3, claimed = 4, seated = 5, hold = 6 };

struct MessageHead {
  std::uint32_t magic, version;
  MessageType type;
  std::uint32_t bytes;  // of the whole message
};

// Fields are 0 if the process cannot know them; others must match what the kernel says about the peer.
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
  share_ending,  // paused for removal, or its pages are unusable
  busy,          // too many connections or processes, or headgated lacks a resource: try again
  denied,        // the outside agent refused, or did not answer in time
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
