// A node with one GPU of 80 GiB in a scratch directory, for this room's tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "node/node.hpp"
#include "tenancy/test_shares.hpp"

namespace headgate::node {

class TestNode : public ::testing::Test {
 protected:
  TestNode() {
    snapshot::Gpu gpu;
    gpu.uuid = tenancy::kGpu0;
    gpu.memory_total_bytes = gpu.memory_free_bytes = 80 * tenancy::kGiB;
    gpus_ = {gpu};
    options_.runtime_dir = scratch_.path() + "/run";
    options_.state_file = scratch_.path() + "/state.db";
    options_.gpus = gpus_;
    start();
  }
  // Starts it again, as a daemon that ended and came back.
  void start() {
    node_.reset();
    events_ = std::make_unique<observe::EventLog>();
    auto opened = Node::open(options_, *events_);
    if (opened) node_ = std::move(*opened);
    else ADD_FAILURE() << opened.error().message;
  }

  const tenancy::Scratch scratch_;
  std::vector<snapshot::Gpu> gpus_;
  NodeOptions options_;
  std::unique_ptr<observe::EventLog> events_;
  std::unique_ptr<Node> node_;
};

}  // namespace headgate::node
