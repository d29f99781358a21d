// The patience of one request that would be refused for want of memory (share create --on-oom=wait;
// docs/operations.md). Costs nothing until a request is about to be refused, and nothing then in a share whose owner
// has not asked for it.
//
//   OomWait wait;
//   do ... try ...; while (refused && wait.again(place, bytes, Lack::share));
//
// Sleeps in the caller's thread with nothing of ours held, so that other threads may free; ends when memory comes, the
// share's time is over, the owner says no or drains the share. What can never fit is not waited for.
#pragma once

#include <cstdint>

#include "guest/limiter/memory/in_flight_bytes.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {

enum class Lack : std::uint32_t {
  share,  // the share's limit leaves no room
  card,   // the driver has none, though the share has: others hold it
};

class OomWait {
 public:
  // Of what was reserved for the request; nothing is in transit while it waits.
  InFlightBytes in_flight;

  // True: something may have changed, try again. False: it is time to refuse; errno is restored.
  bool again(const Place& place, std::uint64_t bytes, Lack lack);

 private:
  bool begin(const Place& place, std::uint64_t bytes, Lack lack);
  void tell(const Place& place, std::uint64_t bytes, Lack lack, std::int64_t now);

  bool begun_ = false;
  Lack lacked_ = Lack::share;  // at the last try
  std::uint32_t denials_ = 0, armed_ = 0;
  std::int64_t ends_ns_ = 0, told_ns_ = 0, began_ns_ = 0;
};

}  // namespace headgate::limiter
