#include "power/control_queues.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <future>

#include "base/now.hpp"
#include "power/test_recording_manager.hpp"

namespace headgate::power {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

Command limit(std::uint32_t watts) { return {.operation = Operation::set_power_limit, .power_limit_mw = watts * 1000}; }
Command lock(std::uint32_t min_mhz, std::uint32_t max_mhz) {
  return {.operation = Operation::set_gpu_locked_clocks, .clocks = {min_mhz, max_mhz}};
}
const Command kResetClocks{.operation = Operation::reset_locked_clocks};

// Queues over recording managers, and what the workers reported.
class Bench {
 public:
  explicit Bench(std::uint32_t gpus = 2, std::size_t depth = ControlQueues::kDepth) {
    for (std::uint32_t index = 0; index < gpus; ++index) recordings.emplace_back(index);
    queues.emplace(
        recording_managers(recordings),
        [this](const Executed& done) {
          const std::lock_guard guard(mutex);
          executed.push_back(done);
        },
        depth);
  }
  ~Bench() {
    for (Recording& recording : recordings) recording.open();
  }

  std::future<Answers> blocking(std::vector<std::uint32_t> gpus, const Command& command,
                                std::uint64_t* number = nullptr) {
    const auto promise = std::make_shared<std::promise<Answers>>();
    const auto submitted = queues->submit({.gpus = std::move(gpus),
                                           .command = command,
                                           .caller = {.text = "uid 1000"},
                                           .arrived_ns = steady_now_ns(),
                                           .answer = [promise](Answers answers) { promise->set_value(answers); }});
    EXPECT_TRUE(submitted) << submitted.error().message;
    if (number != nullptr) *number = submitted.value_or(0);
    return promise->get_future();
  }
  Result<std::uint64_t> at_once(std::vector<std::uint32_t> gpus, const Command& command) {
    return queues->submit(
        {.gpus = std::move(gpus), .command = command, .caller = {.text = "uid 1000"}, .arrived_ns = 0, .answer = {}});
  }

  static Answers answers_of(std::future<Answers> future) {
    if (future.wait_for(kPatience) != std::future_status::ready) {
      ADD_FAILURE() << "no answer";
      return {};
    }
    return future.get();
  }
  std::vector<Executed> done() {
    const std::lock_guard guard(mutex);
    return executed;
  }

  std::deque<Recording> recordings;
  std::mutex mutex;
  std::vector<Executed> executed;
  std::optional<ControlQueues> queues;
};

TEST(ControlQueues, ABlockingCommandReachesAllListedGpus) {
  Bench bench(3);
  const Answers answers = Bench::answers_of(bench.blocking({0, 2}, limit(200)));
  EXPECT_EQ(answers.size(), 2u);
  EXPECT_TRUE(answers.at(0) && answers.at(2));
  EXPECT_EQ(bench.recordings[0].written(), std::vector{limit(200)});
  EXPECT_TRUE(bench.recordings[1].written().empty());
  EXPECT_EQ(bench.recordings[2].written(), std::vector{limit(200)});
}

TEST(ControlQueues, ALostGpusCommandsFailUntilItIsBack) {
  Bench bench(2);
  bench.recordings[0].shut();
  auto both = bench.blocking({0, 1}, limit(200));
  bench.recordings[0].await_caller();
  auto queued = bench.blocking({0}, limit(210));
  ASSERT_TRUE(bench.at_once({0}, limit(220)));
  bench.recordings[0].fail_with(Operation::set_power_limit, {ErrorCode::unreachable, "the GPU is lost", ""});
  bench.recordings[0].open();
  const Answers answers = Bench::answers_of(std::move(both));
  EXPECT_EQ(answers.at(0).error().code, ErrorCode::unreachable);
  EXPECT_TRUE(answers.at(1)) << "the other GPU is set";
  EXPECT_EQ(Bench::answers_of(std::move(queued)).at(0).error().message, "the GPU is lost");
  (void)Bench::answers_of(bench.blocking({0}, {.operation = Operation::get_power_limit}));
  const auto done = bench.done();
  EXPECT_TRUE(std::ranges::any_of(done, [](const Executed& one) {
    return !one.awaited && !one.result && one.command == limit(220);
  })) << "the failure of one that nothing waits for is told too";
  bench.recordings[0].heal();
  EXPECT_TRUE(Bench::answers_of(bench.blocking({0}, limit(230))).at(0));
  EXPECT_EQ(bench.queues->gpu(0).read(Operation::get_power_limit), 230'000u);
}

TEST(ControlQueues, AnUnknownIndexSendsNothingToAnyGpu) {
  Bench bench(2);
  const auto refused = bench.at_once({0, 7}, limit(200));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_found);
  EXPECT_EQ(refused.error().message, "GPU index 7 does not exist.");
  (void)Bench::answers_of(bench.blocking({0}, lock(210, 1000)));
  EXPECT_EQ(bench.recordings[0].written(), std::vector{lock(210, 1000)});
}

TEST(ControlQueues, ABlockingCommandComesAfterAllEarlierOnes) {
  Bench bench(1);
  bench.recordings[0].shut();
  ASSERT_TRUE(bench.at_once({0}, limit(150)));
  bench.recordings[0].await_caller();
  ASSERT_TRUE(bench.at_once({0}, lock(210, 900)));
  ASSERT_TRUE(bench.at_once({0}, limit(160)));
  auto barrier = bench.blocking({0}, kResetClocks);
  bench.recordings[0].open();
  (void)Bench::answers_of(std::move(barrier));
  const std::vector<Command> expected = {limit(150),
                                         lock(210, 900),
                                         limit(160),
                                         {.operation = Operation::reset_gpu_locked_clocks},
                                         {.operation = Operation::reset_mem_locked_clocks}};
  EXPECT_EQ(bench.recordings[0].written(), expected);
}

TEST(ControlQueues, ReplacedSettingsAreMergedButNotAcrossABarrier) {
  Bench bench(1);
  bench.recordings[0].shut();
  ASSERT_TRUE(bench.at_once({0}, limit(101)));
  bench.recordings[0].await_caller();
  for (const std::uint32_t watts : {110U, 120U, 130U}) ASSERT_TRUE(bench.at_once({0}, limit(watts)));
  auto barrier = bench.blocking({0}, limit(140));
  ASSERT_TRUE(bench.at_once({0}, limit(150)));
  ASSERT_TRUE(bench.at_once({0}, limit(160)));
  EXPECT_EQ(bench.queues->waiting(0), 3u) << "130 W, the barrier and 160 W";
  auto last = bench.blocking({0}, {.operation = Operation::get_power_limit});
  bench.recordings[0].open();
  EXPECT_EQ(Bench::answers_of(std::move(last)).at(0)->value, 160'000u);
  (void)Bench::answers_of(std::move(barrier));
  EXPECT_EQ(bench.recordings[0].written(), (std::vector{limit(101), limit(130), limit(140), limit(160)}));
  const auto done = bench.done();
  ASSERT_EQ(done.size(), 5u);
  EXPECT_EQ(done[1].superseded, 2u);
  EXPECT_EQ(done[3].superseded, 1u);
}

TEST(ControlQueues, AFullQueueRefusesForAllListedGpus) {
  Bench bench(2, 3);
  bench.recordings[1].shut();
  auto running = bench.blocking({1}, limit(150));
  bench.recordings[1].await_caller();
  std::vector<std::future<Answers>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(bench.blocking({1}, limit(200)));
  const auto refused = bench.at_once({0, 1}, lock(210, 900));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::busy);
  EXPECT_EQ(refused.error().message, "GPU 1: 3 commands wait already");
  EXPECT_EQ(bench.queues->waiting(0), 0u);
  bench.recordings[1].open();
  for (auto& one : waiting) (void)Bench::answers_of(std::move(one));
  EXPECT_TRUE(bench.recordings[0].written().empty());
}

TEST(ControlQueues, ASettingThatReplacesAnotherFitsIntoAFullQueue) {
  Bench bench(1, 2);
  bench.recordings[0].shut();
  ASSERT_TRUE(bench.at_once({0}, limit(101)));
  bench.recordings[0].await_caller();
  ASSERT_TRUE(bench.at_once({0}, limit(110)));
  ASSERT_TRUE(bench.at_once({0}, lock(210, 900)));
  EXPECT_TRUE(bench.at_once({0}, limit(120)));
  EXPECT_FALSE(bench.at_once({0}, {.operation = Operation::set_persistence_mode, .enabled = true}));
}

TEST(ControlQueues, UnstartedCommandsAreWithdrawnAndReported) {
  Bench bench(2);
  bench.recordings[0].shut();
  auto running = bench.blocking({0}, limit(150));
  bench.recordings[0].await_caller();
  std::uint64_t number = 0;
  auto late = bench.blocking({0, 1}, limit(200), &number);
  while (bench.recordings[1].written().empty()) std::this_thread::yield();
  // GPU 1's result arrives on its worker's thread after its setter returns, so wait for it.
  (void)Bench::answers_of(bench.blocking({1}, {.operation = Operation::get_power_limit}));
  bench.queues->withdraw(number, "4.5 s");
  const Answers answers = Bench::answers_of(std::move(late));
  EXPECT_TRUE(answers.at(1)) << "it was done";
  ASSERT_FALSE(answers.at(0));
  EXPECT_EQ(answers.at(0).error().code, ErrorCode::busy);
  EXPECT_TRUE(answers.at(0).error().message.starts_with("GPU 0: withdrawn after 4.5 s"))
      << answers.at(0).error().message;
  bench.recordings[0].open();
  (void)Bench::answers_of(std::move(running));
  EXPECT_EQ(bench.recordings[0].written(), std::vector{limit(150)}) << "the withdrawn one never ran";
}

TEST(ControlQueues, ARunningCommandIsReportedAtTheDeadline) {
  Bench bench(1);
  bench.recordings[0].shut();
  std::uint64_t number = 0;
  auto running = bench.blocking({0}, limit(150), &number);
  bench.recordings[0].await_caller();
  bench.queues->withdraw(number, "4.5 s");
  const Answers answers = Bench::answers_of(std::move(running));
  ASSERT_FALSE(answers.at(0));
  EXPECT_TRUE(answers.at(0).error().message.starts_with("GPU 0: started, and not ended after 4.5 s"));
  bench.recordings[0].open();
  (void)Bench::answers_of(bench.blocking({0}, {.operation = Operation::get_power_limit}));
  EXPECT_EQ(bench.recordings[0].written(), std::vector{limit(150)});
}

TEST(ControlQueues, AWorkerThatDiesFailsItsCallersOnly) {
  Bench bench(2);
  bench.recordings[0].shut();
  bench.recordings[0].throw_next();
  auto running = bench.blocking({0}, limit(150));
  bench.recordings[0].await_caller();
  auto waiting = bench.blocking({0, 1}, limit(200));
  bench.recordings[0].open();
  for (auto* const one : {&running, &waiting}) {
    const Answers answers = Bench::answers_of(std::move(*one));
    ASSERT_FALSE(answers.at(0));
    EXPECT_EQ(answers.at(0).error().code, ErrorCode::failed);
    EXPECT_EQ(answers.at(0).error().message, "GPU 0: its control thread has ended (the test ends this thread)");
  }
  EXPECT_EQ(bench.at_once({0}, limit(220)).error().code, ErrorCode::failed);
  EXPECT_TRUE(Bench::answers_of(bench.blocking({1}, limit(250))).at(1));
  EXPECT_EQ(bench.recordings[1].written(), (std::vector{limit(200), limit(250)}));
}

TEST(ControlQueues, AnErrorAffectsOneGpu) {
  Bench bench(2);
  bench.recordings[1].fail_with(Operation::set_power_limit, {ErrorCode::denied, "power limit: permission denied", ""});
  const Answers answers = Bench::answers_of(bench.blocking({0, 1}, limit(200)));
  EXPECT_TRUE(answers.at(0));
  EXPECT_EQ(answers.at(1).error().code, ErrorCode::denied);
}

TEST(ControlQueues, ResetOfBothClocksTriesTheSecondAfterAFailure) {
  Bench bench(1);
  bench.recordings[0].fail_with(Operation::reset_gpu_locked_clocks, {ErrorCode::unsupported, "GPU clocks", ""});
  bench.recordings[0].fail_with(Operation::reset_mem_locked_clocks, {ErrorCode::failed, "memory clocks", ""});
  const Answers answers = Bench::answers_of(bench.blocking({0}, kResetClocks));
  EXPECT_EQ(answers.at(0).error().message, "GPU clocks");
  EXPECT_EQ(bench.recordings[0].written().size(), 2u);
}

TEST(ControlQueues, AWriteReportsTheOldAndTheNewValue) {
  Bench bench(1);
  (void)Bench::answers_of(bench.blocking({0}, limit(200)));
  (void)Bench::answers_of(bench.blocking({0}, lock(210, 900)));
  (void)Bench::answers_of(bench.blocking({0}, {.operation = Operation::reset_gpu_locked_clocks}));
  const auto done = bench.done();
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].from + " -> " + done[0].to, "100 W -> 200 W");
  EXPECT_EQ(done[1].from + " -> " + done[1].to, " -> 210 to 900 MHz") << "clocks are known only when we set them";
  EXPECT_EQ(done[2].from + " -> " + done[2].to, "210 to 900 MHz -> ");
  EXPECT_EQ(done[0].caller.text, "uid 1000");
  EXPECT_LT(done[0].overhead_ns, done[0].done_ns);
}

TEST(ControlQueues, TheEndAnswersPendingCommands) {
  Bench bench(1);
  bench.recordings[0].shut();
  auto running = bench.blocking({0}, limit(150));
  bench.recordings[0].await_caller();
  auto waiting = bench.blocking({0}, limit(200));
  std::thread opener([&] {
    EXPECT_FALSE(Bench::answers_of(std::move(waiting)).at(0));
    bench.recordings[0].open();
  });
  bench.queues.reset();
  opener.join();
  EXPECT_EQ(bench.recordings[0].written(), std::vector{limit(150)});
}

TEST(ControlQueues, ConcurrentCallersKeepEachGpusOrder) {
  Bench bench(2);
  constexpr std::uint32_t kCallers = 4, kCalls = 200;
  std::vector<std::thread> callers;
  std::atomic<std::uint32_t> answered = 0;
  for (std::uint32_t caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (std::uint32_t call = 0; call < kCalls; ++call) {
        // Encodes caller and count as a clock range: the counts of one caller must rise.
        if (call % 2 == 0) {
          if (Bench::answers_of(bench.blocking({0, 1}, lock(caller, call))).size() == 2) ++answered;
        } else {
          (void)bench.at_once({caller % 2}, lock(caller, call));
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(answered, kCallers * kCalls / 2);
  (void)Bench::answers_of(bench.blocking({0, 1}, {.operation = Operation::get_power_limit}));
  for (Recording& recording : bench.recordings) {
    std::map<std::uint32_t, std::uint32_t> last;
    std::size_t awaited = 0;
    for (const Command& command : recording.written()) {
      const auto [caller, call] = command.clocks;
      if (last.contains(caller)) {
        EXPECT_LT(last[caller], call) << "caller " << caller;
      }
      last[caller] = call;
      awaited += call % 2 == 0;
    }
    EXPECT_EQ(awaited, kCallers * kCalls / 2) << "no awaited command is lost or merged";
  }
}

}  // namespace
}  // namespace headgate::power
