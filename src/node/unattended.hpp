// Writes into the policy pages what each share may take of a GPU while no daemon runs (tenancy/unattended.hpp), and
// when. The shares' stretches of a cycle follow one another.
#pragma once

#include <functional>
#include <string>

#include "tenancy/shares.hpp"

namespace headgate::node {

using HasProcesses = std::function<bool(const std::string& share)>;

// Covers all shares on the GPU with that UUID. A paused share counts as one without processes; one with unusable pages
// keeps its promise. Call it on the daemon's loop.
void write_unattended(tenancy::Shares& shares, const std::string& uuid, const HasProcesses& has_processes);

}  // namespace headgate::node
