#include "node/node.hpp"

#include <algorithm>
#include <iterator>

namespace headgate::node {

Result<std::unique_ptr<Node>> Node::open(NodeOptions options, observe::EventLog& events) {
  auto managed = TRY(ManagedShares::open(std::move(options), events));
  return std::unique_ptr<Node>(new Node(std::move(managed)));
}

void Node::keep_time(const snapshot::Snapshot& latest, std::int64_t now_unix_s) {
  reporter.look(latest);
  expiry.look(latest, now_unix_s);
  queue.serve();
  // Covers all other changes: shares that ended, were adopted at the start, or have usable pages again.
  managed.divide_unattended();
}

Result<void> Node::arbitrate(const std::string& share, UniqueFd bell) {
  const tenancy::LiveShare* const live = managed.shares.find(share);
  if (managed.arbitration == nullptr || live == nullptr) return {};
  // Per owner: a user cannot join another's gang.
  const std::string gang =
      live->share.gang.empty() ? "" : std::to_string(live->share.owner_uid) + ":" + live->share.gang;
  return managed.arbitration->add(managed.options.runtime_dir, share, gang, std::move(bell));
}

Result<void> Node::replace_bell(const std::string& share, UniqueFd bell) {
  const tenancy::LiveShare* const live = managed.shares.find(share);
  if (managed.arbitration == nullptr || live == nullptr) return {};
  TRY(managed.arbitration->listen_by(share, std::move(bell)));
  managed.tell("share.deaf", "warn", share, live->share.owner_uid,
               "a process of " + share +
                   " shut down the doorbell of its share, or sent descriptors over it, which no limiter does: "
                   "the daemon opens another one; headgate ps lists the processes of the share");
  return {};
}

std::vector<RunInShare> Node::runs() const {
  std::vector<RunInShare> found;
  for (const auto& [name, live] : managed.shares.list())
    for (const tenancy::Run& run : live.runs) found.push_back({.share = name, .pid = run.pid});
  return found;
}

std::vector<int> Node::handed(const std::string& share) {
  const int node_page = snapshots.node_page(share);
  if (node_page < 0) return {};  // their order says which is which
  std::vector<int> all{node_page};
  if (managed.arbitration != nullptr)
    std::ranges::copy(managed.arbitration->board_descriptors(share), std::back_inserter(all));
  return all;
}

}  // namespace headgate::node
