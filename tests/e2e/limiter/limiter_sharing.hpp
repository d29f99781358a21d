// Puppets that share memory under the limiter, their share's account, and the node's truth.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "guest/ledger/account.hpp"
#include "guest/ledger/draining.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/ledger/slot.hpp"
#include "limiter_run.hpp"
#include "sim/driver/memory/test_memory_sharing.hpp"
#include "sim/node.hpp"
#include "sim/profile.hpp"
#include "sim/truth.hpp"

namespace headgate::e2e {

using test::Channel;

inline constexpr std::uint64_t kChunk = 2 << 20;

struct Account {
  std::uint64_t used = 0, draining = 0, peak = 0;
};

class Sharing : public testing::Test {
 protected:
  // A living puppet, and the test's end of its descriptor socket.
  struct Puppet {
    Runtime::Running process;
    Channel way;
    bool alive = true;

    unsigned tell(const std::string& line) {
      process.say(line + "\n");
      const std::string answer = process.next_line();
      return answer.empty() || !std::isdigit(answer[0]) ? 9999u : static_cast<unsigned>(std::stoul(answer));
    }
    int receive() { return test::receive_fd(way.ends[0]); }
    void send(int fd) { test::send_fd(way.ends[0], fd); }
    void die() {
      process.kill_and_wait();
      alive = false;
    }
    void leave() {
      EXPECT_EQ(process.finish().status, 0);
      alive = false;
    }
  };

  Puppet& puppet(const std::string& memory = "16GiB", const std::string& share = "shared",
                 const std::vector<std::string>& words = {}) {
    Puppet& made = puppets_.emplace_back();
    Tenant tenant;
    tenant.driver = Driver::simulated;
    tenant.program = "limiter_sharing";
    tenant.environment = {{"HEADGATE_MEM", memory},
                          {"HEADGATE_SHARE", share},
                          {"HEADGATE_SIM_DIR", node()},
                          {"SHARING_SOCKET", std::to_string(made.way.ends[1])}};
    tenant.limited = !share.empty();
    if (kill_step_ != 0) tenant.environment["HEADGATE_SIM_KILL_STEP"] = std::to_string(kill_step_);
    ::fcntl(made.way.ends[0], F_SETFD, FD_CLOEXEC);
    made.process = runtime_.start(tenant, words);
    ::fcntl(made.way.ends[1], F_SETFD, FD_CLOEXEC);
    if (kill_step_ == 0) {
      EXPECT_EQ(made.process.next_line(), "ready 0");
    }
    return made;
  }

  void TearDown() override {
    for (Puppet& each : puppets_) {
      if (each.alive) each.die();
    }
  }

  [[nodiscard]] std::string node() const { return runtime_.path() + "/run-node"; }
  // Returns the bytes that allocations take on the card, without contexts.
  [[nodiscard]] std::uint64_t truth(std::uint32_t device = 0) const {
    const auto read = sim::read_truth(node());
    if (!read) return ~0ull;
    std::uint64_t contexts = 0;
    for (const auto& process : read->devices.at(device).processes) contexts += process.context_bytes;
    return read->devices.at(device).used_bytes - contexts;
  }
  [[nodiscard]] Account account(const char* share = "shared", std::uint32_t device = 0) const {
    ledger::SharePages pages;
    if (ledger::open_share((runtime_.path() + "/run").c_str(), share, ledger::Access::owner, pages)) return {~0ull};
    ledger::reap_dead(*pages.usage);
    const Account found{ledger::used_bytes(*pages.usage, device), ledger::draining_bytes(*pages.usage, device),
                        ledger::peak_bytes(*pages.usage, device)};
    ledger::close_pages(pages);
    return found;
  }

  int kill_step_ = 0;  // of the node's journal; 0: never
  Runtime runtime_;
  std::list<Puppet> puppets_;
};

}  // namespace headgate::e2e
