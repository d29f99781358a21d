// The node and its arbiter: opened on the driver's GPUs, with the policies that the configuration names. For the loop's
// thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "daemon/context.hpp"
#include "node/node.hpp"
#include "observe/observer.hpp"

namespace headgate::daemon {

// Remembers which share a process was in until the driver's accounting can have reported its end.
class FormerShares {
 public:
  void remember(std::uint32_t pid, observe::FormerShare share) {
    rows_.emplace_back(pid, std::move(share));
    if (rows_.size() > kMost) rows_.pop_front();
  }
  // Returns the share of the last process with this pid; without a name if unknown.
  [[nodiscard]] observe::FormerShare of(std::uint32_t pid) const {
    const auto found = std::find_if(rows_.rbegin(), rows_.rend(), [&](const auto& row) { return row.first == pid; });
    return found == rows_.rend() ? observe::FormerShare{} : found->second;
  }

 private:
  static constexpr std::size_t kMost = 4096;  // as many as a card's accounting keeps
  std::deque<std::pair<std::uint32_t, observe::FormerShare>> rows_;
};

class NodeHost {
 public:
  // Reads the GPUs and adopts the shares; no share has turns yet. `context` must outlive it. Errors: of the driver, the
  // store, the runtime directory.
  [[nodiscard]] static Result<std::unique_ptr<NodeHost>> open(Context& context);
  NodeHost(const NodeHost&) = delete;

  // Starts the arbiter. `rung` is called on the loop, as node::Arbitration::Asked.
  [[nodiscard]] Result<void> arbitrate(node::Arbitration::Asked rung);
  // Applies the configuration's policy.
  void set_policies();

  [[nodiscard]] node::Node& node() { return *node_; }
  [[nodiscard]] node::Arbitration& arbitration() { return *arbitration_; }
  [[nodiscard]] bool is_simulated() const { return simulated_; }
  [[nodiscard]] FormerShares& former() { return former_; }
  // Returns empty if the share is gone.
  [[nodiscard]] std::optional<std::uint32_t> owner_of(const std::string& share);

 private:
  explicit NodeHost(Context& context) : context_(context) {}

  Context& context_;
  bool simulated_ = false;
  FormerShares former_;
  std::optional<node::Arbitration> arbitration_;  // outlives the node
  std::unique_ptr<node::Node> node_;
};

}  // namespace headgate::daemon
