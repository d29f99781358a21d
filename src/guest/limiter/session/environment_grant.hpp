// What the environment asks for, as a grant for the pages.
#pragma once

#include "guest/grant/environment.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/limiter/session/devices.hpp"

namespace headgate::limiter {

enum class EnvironmentGrant : std::uint32_t {
  nothing,     // no variable of ours or of another limiter is set, or the process opted out
  join,        // a share is named without values: take them from its pages
  values,      // `grant` holds the share's values
  unreadable,  // `message` names the bad value and what is accepted
};

struct Wanted {
  EnvironmentGrant kind = EnvironmentGrant::nothing;
  ledger::ShareGrant grant;
  bool share_named = false;  // grant.name was given, not the default
  char directory[256] = {};  // of a share of the daemon; empty: not given
  char message[640] = {};
};

// Reads the environment; sets the log's level and file. A program with raised privileges (AT_SECURE) reads nothing, and
// uses only the share mounted into its container. Without a grant, opens no file, descriptor or thread.
void read_environment_grant(const SeenDevices& devices, Wanted& out);

// Returns whether a share is named by its directory, or mounted: cheaper than reading all of the environment.
bool names_directory();

// Logs at the start how much of the memory limit is on the card, and how much on the host.
void say_oversubscribed(const char* uuid, std::uint64_t card_bytes, std::uint64_t host_bytes);

// Returns the value of an environment variable, or nullptr; always nullptr under AT_SECURE.
const char* variable(const char* name);

}  // namespace headgate::limiter
