// Sends and receives the messages of a tenant socket (guest/ledger/registration.hpp). Nothing here waits.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "base/untrusted_socket.hpp"
#include "guest/ledger/registration.hpp"

namespace headgate::tenancy {

// Returns false if not all of it was sent. A peer that does not read the little we send is not waited for.
template <typename Message>
bool say(int socket, const Message& message, std::span<const int> descriptors = {}) {
  iovec part{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * ledger::kMaxWelcomeDescriptors)> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

inline void refuse(int socket, ledger::Refusal code, const std::string& why) {
  ledger::Refuse message{ledger::head_of<ledger::Refuse>(ledger::MessageType::refuse), code, {}};
  std::memcpy(message.text, why.data(), std::min(why.size(), sizeof message.text - 1));
  say(socket, message);
}

enum class Heard { message, nothing_yet, ended, strange };

// Receives one whole message of that type, without descriptors.
template <typename Message>
Heard hear(int socket, ledger::MessageType type, Message& out) {
  std::array<char, sizeof(ledger::Refuse)> bytes;
  const ssize_t length = receive_bytes(socket, bytes.data(), bytes.size(), MSG_TRUNC);
  if (length < 0 && errno == EPERM) return Heard::strange;
  if (length < 0) return errno == EAGAIN || errno == EINTR ? Heard::nothing_yet : Heard::ended;
  if (length == 0) return Heard::ended;
  if (static_cast<std::size_t>(length) < sizeof(ledger::MessageHead)) return Heard::strange;
  ledger::MessageHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  // Another version's message may have another length: report its version, not its length. The rest of `out` stays 0,
  // which is no valid page version and no seat.
  const bool other_version = head.magic == ledger::kRegistrationMagic && head.version != ledger::kRegistrationVersion;
  std::memset(static_cast<void*>(&out), 0, sizeof out);
  if (other_version) return out.head = head, Heard::message;
  if (length != static_cast<ssize_t>(sizeof out) || head.magic != ledger::kRegistrationMagic || head.type != type ||
      head.bytes != sizeof out)
    return Heard::strange;
  std::memcpy(static_cast<void*>(&out), bytes.data(), sizeof out);
  return Heard::message;
}

}  // namespace headgate::tenancy
