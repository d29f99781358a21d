// What the environment asks for, as a grant for the pages.
#pragma once

#include "guest/grant/environment.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/limiter/session/devices.hpp"

namespace headgate::limiter {

enum class EnvironmentGrant : std::uint32_t {
  nothing,     // no name of ours or of another limiter is set, or the process opted out
  join,        // a share is named, no values: take them from its pages
  values,      // `grant` holds the share's values
  unreadable,  // `message` says which value, and what is accepted
};

struct Wanted {
  EnvironmentGrant kind = EnvironmentGrant::nothing;
  ledger::ShareGrant grant;
  bool share_named = false;  // grant.name was said, and is not merely the default
  char directory[256] = {};  // of a share of the daemon's; empty: none was said
  char message[640] = {};
};

// Reads the environment; sets the log's level and file. A program that runs with raised privileges (AT_SECURE) reads
// nothing, and asks only for the share that is mounted where a container has it. Without a grant of its own no file,
// descriptor or thread results.
void read_environment_grant(const SeenDevices& devices, Wanted& out);

// Says at the start how much of the memory limit lies on the card, and how much on the host.
void say_oversubscribed(const char* uuid, std::uint64_t card_bytes, std::uint64_t host_bytes);

// The value of an environment variable, or nullptr; always nullptr under AT_SECURE.
const char* variable(const char* name);

}  // namespace headgate::limiter
