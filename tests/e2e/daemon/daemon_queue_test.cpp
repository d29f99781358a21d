// headgate run --wait: requests that wait in the daemon's queue for room.
#include "daemon_program.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "snapshot/json.hpp"

namespace headgate::e2e {
namespace {

class Queue : public ::testing::Test {
 protected:
  // Starts a run that waits, and then continues until done().
  std::unique_ptr<Program> waiter(const std::string& name, const std::string& memory,
                                  const std::string& wait = "--wait") {
    return std::make_unique<Program>(
        std::vector<std::string>{HEADGATE_COMMAND, "run", "-v", wait, "--name", name, "--mem", memory, "--", "sh", "-c",
                                 "until [ -e " + mark(name) + " ]; do sleep 0.05; done"},
        std::map<std::string, std::string>{{"HEADGATE_RUNTIME_DIR", cli().runtime()}});
  }
  void done(const std::string& name) const { EXPECT_EQ(cli().shell("touch " + mark(name)).status, 0); }
  [[nodiscard]] std::string mark(const std::string& name) const { return cli().directory() + "/done-" + name; }
  [[nodiscard]] const Cli& cli() const { return daemon_.cli(); }

  // Returns "w1 w2 w3", in queue order.
  [[nodiscard]] std::string line() const {
    const auto all = snapshot::from_json<std::vector<snapshot::Waiting>>(daemon_.ask("GET", "/v1/queue").body);
    std::string names;
    for (const auto& one : all.value_or(std::vector<snapshot::Waiting>{}))
      names += (names.empty() ? "" : " ") + one.share;
    return names;
  }
  [[nodiscard]] bool stands(const std::string& names) const {
    return eventually([&] { return line() == names; });
  }
  // Returns the names of created shares, in order.
  [[nodiscard]] std::string made() const {
    std::string names;
    const auto all = snapshot::from_json<std::vector<snapshot::Event>>(daemon_.ask("GET", "/v1/events").body);
    for (const auto& event : all.value_or(std::vector<snapshot::Event>{}))
      if (event.kind == "share.created") names += (names.empty() ? "" : " ") + event.share;
    return names;
  }

  Daemon daemon_;
};

TEST_F(Queue, ThreeRequestsGetRoomInOrderAndAreListed) {
  ASSERT_EQ(cli().shell("$H share create full --mem 130GiB").status, 0);
  const auto first = waiter("w1", "100GiB");
  ASSERT_TRUE(stands("w1")) << first->errors_so_far();
  const auto second = waiter("w2", "1GiB");
  ASSERT_TRUE(stands("w1 w2")) << "there is room for it, but the first waits for that";
  const auto third = waiter("w3", "100GiB");
  ASSERT_TRUE(stands("w1 w2 w3"));
  const Said list = cli().shell("$H share ls; $H metrics | grep ^headgate_gpu_waiting_requests");
  EXPECT_NE(list.out.find("waiting for room:"), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("behind number 1"), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("} 3\n"), std::string::npos) << list.out;
  const Said pushing = cli().shell("$H run --mem 1GiB -- true");
  EXPECT_EQ(pushing.status, 4);
  EXPECT_NE(pushing.err.find("3 wait for room"), std::string::npos) << pushing.err;

  ASSERT_EQ(cli().shell("$H share rm full").status, 0);
  ASSERT_TRUE(stands("w3")) << line();
  done("w2");
  EXPECT_EQ(second->wait(), 0) << second->errors();
  EXPECT_EQ(line(), "w3");
  done("w1");
  EXPECT_EQ(first->wait(), 0) << first->errors();
  ASSERT_TRUE(stands(""));
  done("w3");
  EXPECT_EQ(third->wait(), 0) << third->errors();
  EXPECT_NE(third->errors().find("number 3 in line"), std::string::npos);
  EXPECT_EQ(made(), "full w1 w2 w3");
}

TEST_F(Queue, RequestsLeaveAtTheirEndAndImpossibleOnesNeverEnter) {
  ASSERT_EQ(cli().shell("$H share create full --mem 130GiB").status, 0);
  const auto first = waiter("w1", "100GiB");
  ASSERT_TRUE(stands("w1"));
  const auto second = waiter("w2", "1GiB");
  ASSERT_TRUE(stands("w1 w2"));
  const Said never = cli().shell("$H run --wait --mem 144000MiB -- true");
  EXPECT_EQ(never.status, 4);
  EXPECT_NE(never.err.find("no waiting would help"), std::string::npos) << never.err;
  const Said late = cli().shell("$H run --wait=1s --mem 100GiB -- true");
  EXPECT_EQ(late.status, 4);
  EXPECT_NE(late.err.find("there was no room in 1s"), std::string::npos) << late.err;
  EXPECT_TRUE(stands("w1 w2"));
  first->kill_now();
  first->wait();
  EXPECT_TRUE(stands("")) << "the next in the queue has room now";
  done("w2");
  EXPECT_EQ(second->wait(), 0) << second->errors();
  EXPECT_EQ(made(), "full w2");
}

TEST_F(Queue, TwoRequestsUnderOneNameEnterOneShare) {
  ASSERT_EQ(cli().shell("$H share create full --mem 130GiB").status, 0);
  const auto first = waiter("w1", "100GiB");
  ASSERT_TRUE(stands("w1")) << first->errors_so_far();
  const auto second = waiter("w1", "100GiB");
  ASSERT_TRUE(stands("w1 w1")) << second->errors_so_far();
  const auto other = waiter("w1", "90GiB");
  ASSERT_TRUE(stands("w1 w1 w1")) << other->errors_so_far();
  ASSERT_EQ(cli().shell("$H share rm full").status, 0);
  EXPECT_EQ(other->wait(), 2);
  const std::string differs = other->errors();
  EXPECT_NE(differs.find("has its limits already: --mem"), std::string::npos) << differs;
  for (const auto& run : {first.get(), second.get()})
    ASSERT_TRUE(eventually([&] { return run->errors_so_far().contains("share w1 on"); })) << run->errors_so_far();
  done("w1");
  EXPECT_EQ(first->wait(), 0) << first->errors();
  EXPECT_EQ(second->wait(), 0) << second->errors();
  EXPECT_EQ(made(), "full w1");
}

// Whatever created it, e.g. a daemon that died before it could reply.
TEST_F(Queue, ARunWithoutANameJoinsTheShareOfItsName) {
  ASSERT_EQ(cli().shell("$H share create full --mem 130GiB").status, 0);
  Program run({HEADGATE_COMMAND, "run", "--wait", "--mem", "100GiB", "--", "true"},
              {{"HEADGATE_RUNTIME_DIR", cli().runtime()}});
  ASSERT_TRUE(eventually([&] { return line().starts_with("run-"); }));
  const std::string name = line();
  ASSERT_EQ(cli().shell("$H share create " + name + " --mem 100GiB --overcommit").status, 0);
  ASSERT_EQ(cli().shell("$H share rm full").status, 0);
  EXPECT_EQ(run.wait(), 0) << run.errors();
}

TEST_F(Queue, AnInvalidTimeToWaitIsRefusedBeforeQueueing) {
  const Said none = cli().shell("$H run --wait=0s --mem 1GiB -- true");
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("--wait '0s' is zero"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("accepted: 1s to 36500d"), std::string::npos) << none.err;
}

TEST_F(Queue, RequestsWaitAcrossARestartOfTheDaemon) {
  ASSERT_EQ(cli().shell("$H share create full --mem 130GiB").status, 0);
  const auto waiting = waiter("w1", "100GiB", "--wait=5m");
  ASSERT_TRUE(stands("w1"));
  daemon_.kill_and_wait();
  daemon_.start();
  ASSERT_TRUE(stands("w1")) << waiting->errors_so_far();
  EXPECT_EQ(daemon_.stop(), 0);
  daemon_.start();
  ASSERT_TRUE(stands("w1")) << "also after an end in good order";
  ASSERT_EQ(cli().shell("$H share rm full").status, 0);
  done("w1");
  EXPECT_EQ(waiting->wait(), 0) << waiting->errors();
}

}  // namespace
}  // namespace headgate::e2e
