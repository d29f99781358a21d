// Writes into the policy pages what each share may take of a GPU while no daemon runs (tenancy/unattended.hpp), and
// when: the shares' stretches of a cycle lie one behind the other.
#pragma once

#include <functional>
#include <string>

#include "tenancy/shares.hpp"

namespace headgate::node {

using HasProcesses = std::function<bool(const std::string& share)>;

// Of all shares on the GPU with that UUID. A paused share counts as one without processes, and one whose pages cannot
// be used keeps its promise. For the daemon's loop.
void write_unattended(tenancy::Shares& shares, const std::string& uuid, const HasProcesses& has_processes);

}  // namespace headgate::node
