// The daemon's end of a share's doorbell. A tenant can ring as often as it likes, so each share pays for its rings out
// of its unused part of the last 10 ms; then it is not heard for a while.
#pragma once

#include <cstdint>
#include <utility>

#include "base/untrusted_socket.hpp"

namespace headgate::node {

// Not thread-safe.
class Doorbell {
 public:
  explicit Doorbell(UniqueFd bell) : socket_(std::move(bell)) {}

  struct Heard {
    std::uint32_t rings = 0;
    bool memory = false, reading = false;  // what was rung for beside turns
  };
  // Takes rings from the socket. Call it when that is readable.
  Heard hear(std::int64_t now_ns);
  // Returns until when not to listen; 0: the share has not rung too often.
  [[nodiscard]] std::int64_t muted_until_ns() const { return muted_until_ns_; }
  void unmute() { muted_until_ns_ = 0; }
  // Returns whether a tenant has shut it down, or sent descriptors: nothing more will be heard.
  [[nodiscard]] bool is_closed() const { return closed_; }
  [[nodiscard]] int descriptor() const { return socket_.get(); }  // -1: none
  // What was heard so far stays paid for.
  void replace(UniqueFd bell) {
    socket_ = UntrustedSocket(std::move(bell));
    closed_ = false;
  }

 private:
  UntrustedSocket socket_;
  std::int64_t paid_ns_ = 0;  // until when the rings heard so far are paid for
  std::int64_t muted_until_ns_ = 0;
  bool closed_ = false;
};

}  // namespace headgate::node
