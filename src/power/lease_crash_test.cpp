// Kills a daemon at each step of a lease: after the next start, every setting must be right.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <new>
#include <thread>

#include "power/lease_keeper.hpp"

namespace headgate::power {
namespace {

constexpr std::uint32_t kBefore = 100'000, kWanted = 200'000;

// The hardware, which outlives the daemons; these are children of the test.
struct Card {
  std::atomic<std::uint32_t> limit_mw{kBefore};
  std::atomic<bool> persistence{false};
};
struct Machine {
  Card cards[2];
  std::atomic<int> steps_left{0};  // steps until the daemon is killed (before and after each setter); 0: never

  void step() {
    if (steps_left.load() != 0 && steps_left.fetch_sub(1) == 1) ::raise(SIGKILL);
  }
};

class CardManager final : public GpuManager {
 public:
  CardManager(Machine& machine, std::uint32_t index) : machine_(machine), card_(machine.cards[index]) {
    identity_.uuid = "GPU-" + std::to_string(index);
  }
  [[nodiscard]] const GpuIdentity& identity() const override { return identity_; }
  Result<Reading> perform(const Command& command) override {
    switch (command.operation) {
      case Operation::set_persistence_mode:
      case Operation::set_power_limit:
        machine_.step();
        if (command.operation == Operation::set_power_limit) card_.limit_mw = command.power_limit_mw;
        else card_.persistence = command.enabled;
        machine_.step();
        return Reading{};
      case Operation::get_power:
      case Operation::get_cumulative_energy:
      case Operation::get_compute_mode: return Reading{};
      case Operation::get_power_limit: return Reading{.value = card_.limit_mw.load()};
      case Operation::get_power_limit_constraints: return Reading{.value = 1, .second = 1'000'000};
      case Operation::get_persistence_mode: return Reading{.value = card_.persistence.load()};
      default: return fail(ErrorCode::unsupported, "not in this test");
    }
  }

 private:
  Machine& machine_;
  Card& card_;
  GpuIdentity identity_;
};

class LeaseCrash : public testing::Test {
 protected:
  LeaseCrash() {
    std::string pattern = "/tmp/headgate-crash-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    void* const shared = ::mmap(nullptr, sizeof(Machine), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    machine_ = new (shared) Machine;
  }
  ~LeaseCrash() override {
    end_holder();
    ::munmap(machine_, sizeof(Machine));
    std::filesystem::remove_all(folder_);
  }

  void start_holder() {
    end_holder();
    holder_ = ::fork();
    if (holder_ == 0)
      for (;;) ::pause();
  }
  void end_holder() {
    if (holder_ > 0) ::kill(holder_, SIGKILL);
    if (holder_ > 0) ::waitpid(holder_, nullptr, 0);
    holder_ = 0;
  }

  // Runs `work` in a child process as the daemon, which may be killed. Returns true if it was not.
  template <typename Work>
  bool daemon(Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::vector<std::unique_ptr<GpuManager>> managers;
      for (std::uint32_t gpu = 0; gpu < 2; ++gpu) managers.push_back(std::make_unique<CardManager>(*machine_, gpu));
      ControlQueues queues(std::move(managers), [](const Executed&) {});
      LeaseKeeper::Options options;
      options.file = folder_ + "/leases.json";
      options.now_s = [] { return std::int64_t{1'000'000}; };
      options.retry = std::chrono::milliseconds(1);
      LeaseKeeper keeper(queues, std::move(options));
      if (keeper.start()) work(keeper);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status);
  }
  // Runs the whole life of a lease on both GPUs.
  bool live_a_lease(int steps) {
    for (Card& card : machine_->cards) {
      card.limit_mw = kBefore;
      card.persistence = false;
    }
    std::filesystem::remove(folder_ + "/leases.json");
    start_holder();
    machine_->steps_left = steps;
    return daemon([this](LeaseKeeper& keeper) {
      LeaseTerms terms{.wanted = {}, .holder_pid = static_cast<std::uint32_t>(holder_), .ttl_s = 0};
      for (const char* gpu : {"GPU-0", "GPU-1"}) {
        terms.wanted[gpu].power_limit_mw = kWanted;
        terms.wanted[gpu].persistence = true;
      }
      std::promise<Result<Lease>> made;
      keeper.create(terms, 0, [&made](Result<Lease> lease) { made.set_value(std::move(lease)); });
      const auto lease = made.get_future().get();
      if (!lease) ::_exit(1);
      std::promise<void> ended;
      keeper.end(lease->id, [&ended](const Result<void>&) { ended.set_value(); });
      ended.get_future().wait();
    });
  }
  // Runs the next daemon until it has done what the file requires.
  void restart() {
    machine_->steps_left = 0;
    EXPECT_TRUE(daemon([](LeaseKeeper& keeper) {
      // Work runs in order, so this completes after everything the start began.
      std::promise<void> settled;
      keeper.end("none", [&settled](const Result<void>&) { settled.set_value(); });
      settled.get_future().wait();
    }));
  }
  [[nodiscard]] bool all_are(std::uint32_t limit_mw, bool persistence) const {
    return std::ranges::all_of(machine_->cards, [&](const Card& card) {
      return card.limit_mw == limit_mw && card.persistence == persistence;
    });
  }

  std::string folder_;
  Machine* machine_ = nullptr;
  pid_t holder_ = 0;
};

// Two GPUs with two controls each: four setters to apply it, four to restore it, and a step before and after each.
constexpr int kSteps = 16;

TEST_F(LeaseCrash, TheNextDaemonRestoresADeadHoldersValues) {
  for (int steps = 1; steps <= kSteps; ++steps) {
    ASSERT_FALSE(live_a_lease(steps)) << "killed at step " << steps;
    end_holder();
    restart();
    EXPECT_TRUE(all_are(kBefore, false)) << "killed at step " << steps;
    EXPECT_TRUE(load_leases(folder_ + "/leases.json")->empty());
  }
  EXPECT_TRUE(live_a_lease(kSteps + 1)) << "there are no more steps";
  EXPECT_TRUE(all_are(kBefore, false));
}

TEST_F(LeaseCrash, ALivingHoldersLeaseIsWholeAfterAnyCrash) {
  for (int steps = 1; steps <= kSteps; ++steps) {
    ASSERT_FALSE(live_a_lease(steps)) << "killed at step " << steps;
    restart();
    // The file has it even if the daemon was killed while restoring, because the caller was not yet told of its end.
    EXPECT_TRUE(all_are(kWanted, true)) << "killed at step " << steps;
    EXPECT_EQ(load_leases(folder_ + "/leases.json")->size(), 1u);
  }
}

TEST_F(LeaseCrash, ADaemonKilledInRecoveryIsFollowedByAnother) {
  for (int steps = 1; steps <= kSteps / 2; ++steps) {
    ASSERT_FALSE(live_a_lease(kSteps / 2)) << "all is set";
    end_holder();
    machine_->steps_left = steps;
    EXPECT_FALSE(daemon([](LeaseKeeper& keeper) {
      while (!keeper.list().empty()) std::this_thread::yield();
    })) << "killed at step "
        << steps << " of its start";
    restart();
    EXPECT_TRUE(all_are(kBefore, false)) << "killed at step " << steps << " of the start";
  }
}

}  // namespace
}  // namespace headgate::power
