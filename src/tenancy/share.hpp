// A share as its owner asked for it: what the store keeps, admission counts, and the pages are made from.
//
// Plain values; anything that reads or writes them says how. Bytes are bytes, compute is parts per million of one GPU's
// time (ledger::kWholeGpu is all of it).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::tenancy {

enum class Class : std::uint32_t { best_effort = 0, normal = 1, latency = 2 };
[[nodiscard]] std::string_view class_word(Class priority_class);  // best-effort, normal, latency

// Who says yes to a process that wants in: nobody has to, or an outside scheduler is asked first.
enum class Admit : std::uint32_t { now = 0, ask = 1 };

// How a share's programs have the GPU beside those of others: in the arbiter's turns, as clients of an MPS server, or in
// the driver's own time slices. Their limiters hold memory and ceiling under all of them.
enum class Isolation : std::uint32_t { hook = 0, mps = 1, timeslice = 2 };
[[nodiscard]] std::string_view isolation_word(Isolation isolation);  // hook, mps, timeslice

inline constexpr std::uint32_t kMaxWeight = 1000;

struct DeviceShare {
  std::string uuid;
  std::optional<std::uint64_t> memory_limit_bytes;  // null: the whole card
  std::uint64_t host_limit_bytes = 0;               // host memory past that limit; 0: the limit is hard
  std::uint32_t ceiling_ppm = ledger::kWholeGpu;    // 1..kWholeGpu
  std::uint32_t guarantee_ppm = 0;                  // 0..ceiling
  std::uint32_t weight = 100;                       // 1..kMaxWeight
  Class priority_class = Class::normal;

  friend bool operator==(const DeviceShare&, const DeviceShare&) = default;
};

struct Share {
  std::string name;
  std::uint32_t owner_uid = 0;
  // Of the owner's process when the share was made, and those that the system's directory gave him; sorted. Group
  // quotas count by them.
  std::vector<std::uint32_t> owner_gids;
  std::vector<DeviceShare> devices;  // 1..16, no GPU twice
  ledger::FailPolicy fail_policy = ledger::FailPolicy::open;
  // Not counted against the card, and promised nothing: it may be refused memory that its limit would allow.
  bool overcommit = false;
  // Its programs see its host memory as the card's: see node/share_request.hpp.
  bool oversubscribe = false;
  bool until_empty = false;                 // it goes when its last process has: of a run, not of `share create`
  std::optional<std::chrono::seconds> ttl;  // from created_at_s; null: for ever
  std::optional<std::chrono::seconds> idle_notice;  // null: nobody is told that it is idle
  // Programs that leave the driver alone for so long move their memory to the host until their next call; null: never.
  std::optional<std::chrono::seconds> freeze_after;
  Admit admit = Admit::now;
  // Shares of one owner and gang have their turns on GPUs together; empty: it is alone. A share name's letters.
  std::string gang;
  Isolation isolation = Isolation::hook;
  std::optional<std::chrono::seconds>
      oom_wait;                   // an allocation without room waits so long; null: it is refused at once
  std::int64_t created_at_s = 0;  // CLOCK_REALTIME
  // Who may enter it besides its owner. `everyone`: whoever reaches its directory, for containers with random uids.
  std::vector<std::uint32_t> users, groups;  // sorted
  bool everyone = false;

  friend bool operator==(const Share&, const Share&) = default;
};

// 1 to 63 of A-Z a-z 0-9 . _ -, beginning with a letter, a digit or '_': also a directory's name, a word on a command
// line, and a CDI device. Errors: usage.
[[nodiscard]] Result<void> check_name(std::string_view name);

// As the pages hold it. Errors: usage, for the first value that is out of range.
[[nodiscard]] Result<ledger::ShareGrant> to_grant(const Share& share);

// When the share is to end, CLOCK_REALTIME seconds; null: never.
[[nodiscard]] std::optional<std::int64_t> ends_at_s(const Share& share);

[[nodiscard]] bool has_ended(const Share& share, std::int64_t now_unix_s);

// A fault of the pages as an error; `base` is the runtime directory.
[[nodiscard]] Error page_error(const ledger::PageFault& fault, const std::string& base, const std::string& name);

// Text from outside, on its way into a message: printable() of it, at most so many bytes, and a sign that there was
// more.
[[nodiscard]] std::string escape_untrusted(std::string_view text, std::size_t shown = 80);

}  // namespace headgate::tenancy
