// The node and its arbiter: opened on the driver's GPUs, with the policies that the configuration names. For the loop's
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "daemon/context.hpp"
#include "node/node.hpp"

namespace headgate::daemon {

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
  // Returns empty if the share is gone.
  [[nodiscard]] std::optional<std::uint32_t> owner_of(const std::string& share);

 private:
  explicit NodeHost(Context& context) : context_(context) {}

  Context& context_;
  bool simulated_ = false;
  std::optional<node::Arbitration> arbitration_;  // outlives the node
  std::unique_ptr<node::Node> node_;
};

}  // namespace headgate::daemon
