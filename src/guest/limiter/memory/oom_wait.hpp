// Waiting of one request that would be refused for lack of memory (share create --on-oom=wait; docs/shares.md).
// Costs nothing until a request is about to be refused, and nothing then unless the share's owner enabled it.
//
//   OomWait wait;
//   do ... try ...; while (refused && wait.again(place, bytes, Lack::share));
//
// Sleeps in the caller's thread and holds nothing of ours, so that other threads may free. Ends when memory comes, the
// wait time is over, or the owner denies it or drains the share. Does not wait for what can never fit.
#pragma once

#include <cstdint>

#include "guest/limiter/memory/in_flight_bytes.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {

enum class Lack : std::uint32_t {
  share,  // no room in the share's limit
  card,   // the driver has none although the share has: others hold it
};

class OomWait {
 public:
  // For the request's reservation; nothing is in flight while it waits.
  InFlightBytes in_flight;

  // Returns true if something may have changed: try again. False: refuse; errno is restored.
  bool again(const Place& place, std::uint64_t bytes, Lack lack);

 private:
  bool begin(const Place& place, std::uint64_t bytes, Lack lack);
  void tell(const Place& place, std::uint64_t bytes, Lack lack, std::int64_t now);

  bool begun_ = false;
  Lack lacked_ = Lack::share;  // at the last attempt
  std::uint32_t denials_ = 0, armed_ = 0;
  std::int64_t ends_ns_ = 0, told_ns_ = 0, began_ns_ = 0;
};

}  // namespace headgate::limiter
