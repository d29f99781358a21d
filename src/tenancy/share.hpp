// A share as its owner asked for it: what the store keeps, admission counts, and the pages are made from.
//
// Plain values; the code that reads or writes them defines how. Sizes are in bytes, compute in parts per million of one
// GPU's time (ledger::kWholeGpu is all of it).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::tenancy {

enum class Class : std::uint32_t { best_effort = 0, normal = 1, latency = 2 };
[[nodiscard]] std::string_view class_word(Class priority_class);  // best-effort, normal, latency

// How a process is admitted: at once, or after an outside scheduler was asked.
enum class Admit : std::uint32_t { now = 0, ask = 1 };

// How a share's programs have the GPU beside those of others: in the arbiter's turns, as clients of an MPS server, or
// in the driver's own time slices. Their limiters hold memory and ceiling under all of them.
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
  // Groups of the owner's process when the share was made, and those that the system's directory lists; sorted. Group
  // quotas count by them.
  std::vector<std::uint32_t> owner_gids;
  std::vector<DeviceShare> devices;  // 1..16, no GPU twice
  ledger::FailPolicy fail_policy = ledger::FailPolicy::open;
  // Not counted against the card, and promised nothing: memory within its limit may be refused.
  bool overcommit = false;
  // Its programs see its host memory as part of the card's: see node/share_request.hpp.
  bool oversubscribe = false;
  bool until_empty = false;                 // removed when its last process ends: made by a run, not by `share create`
  std::optional<std::chrono::seconds> ttl;  // from created_at_s; null: for ever
  std::optional<std::chrono::seconds> idle_notice;  // null: its idleness is not reported
  // Programs that make no driver call for so long move their memory to the host until their next call; null: never.
  std::optional<std::chrono::seconds> freeze_after;
  Admit admit = Admit::now;
  // Shares of one owner and gang get their turns on GPUs together; empty: no gang. Characters as in a share's name.
  std::string gang;
  Isolation isolation = Isolation::hook;
  std::optional<std::chrono::seconds> oom_wait;  // an allocation without room waits so long; null: it fails at once
  std::int64_t created_at_s = 0;                 // CLOCK_REALTIME
  // These may enter it besides its owner. `everyone`: any process that reaches its directory (random uids in
  // containers).
  std::vector<std::uint32_t> users, groups;  // sorted
  bool everyone = false;

  friend bool operator==(const Share&, const Share&) = default;
};

// Attributes that a share only keeps, under their keys in snapshot/share_request.hpp. `page`: limiters have it too.
struct TimeAttribute {
  std::string_view key;
  std::optional<std::chrono::seconds> Share::* kept;
  std::atomic<std::uint32_t> ledger::PolicyPage::* page = nullptr;  // in seconds; 0: never
};
inline constexpr TimeAttribute kTimeAttributes[] = {
    {"ttl", &Share::ttl},
    {"freeze_after", &Share::freeze_after, &ledger::PolicyPage::freeze_after_s},
    {"idle_notice", &Share::idle_notice},
};
struct FlagAttribute {
  std::string_view key;
  bool Share::* kept;
};
inline constexpr FlagAttribute kFlagAttributes[] = {
    {"everyone", &Share::everyone},
    {"overcommit", &Share::overcommit},
    {"oversubscribe", &Share::oversubscribe},
    {"until_empty", &Share::until_empty},
};

// Returns what the share has of that GPU; null: nothing.
[[nodiscard]] const DeviceShare* device_on(const Share& share, std::string_view uuid);

// Checks a name: 1 to 63 of A-Z a-z 0-9 . _ -, beginning with a letter, a digit or '_'. It also names a directory, a
// command-line argument and a CDI device. Errors: usage.
[[nodiscard]] Result<void> check_name(std::string_view name);

// Converts a share to what the pages hold. Errors: usage, for the first value that is out of range.
[[nodiscard]] Result<ledger::ShareGrant> to_grant(const Share& share);

// Returns when the share ends, in CLOCK_REALTIME seconds; null: never.
[[nodiscard]] std::optional<std::int64_t> ends_at_s(const Share& share);

[[nodiscard]] bool has_ended(const Share& share, std::int64_t now_unix_s);

// Converts a fault of the pages to an error; `base` is the runtime directory.
[[nodiscard]] Error page_error(const ledger::PageFault& fault, const std::string& base, const std::string& name);

// Prepares untrusted text for a message: printable(), at most `shown` bytes, and a sign if there was more.
[[nodiscard]] std::string escape_untrusted(std::string_view text, std::size_t shown = 80);

// A process's credentials as the kernel reports them, as in identity::Peer.
struct Visitor {
  std::uint32_t uid = ~0u, gid = ~0u;  // ~0u: no user, and no group
  std::span<const std::uint32_t> groups{};
  std::optional<std::uint32_t> user_namespace_owner{};
};

// Admits the owner, listed users, members of listed groups, and each process in a user namespace that the owner or a
// listed user created. Such is a rootless container, with other uids inside. uid 0 has no special right: root in a
// container is uid 0 here. Errors: denied.
[[nodiscard]] Result<void> may_enter(const Share& share, const Visitor& visitor);

}  // namespace headgate::tenancy
