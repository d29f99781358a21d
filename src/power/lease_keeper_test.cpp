#include "power/lease_keeper.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>

#include "power/test_recording_manager.hpp"

namespace headgate::power {
namespace {

// A process that lives until the test ends it.
class Holder {
 public:
  Holder() : pid_(::fork()) {
    if (pid_ == 0)
      for (;;) ::pause();
  }
  ~Holder() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  [[nodiscard]] std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }

 private:
  pid_t pid_;
};

// Two recording GPUs with initial limits of 100 W, and a keeper that can be killed and restarted.
class Leases : public testing::Test {
 protected:
  Leases() {
    std::string pattern = "/tmp/headgate-leases-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    for (std::uint32_t gpu = 0; gpu < 2; ++gpu) gpus_.emplace_back(gpu);
    queues_.emplace(recording_managers(gpus_), [](const Executed&) {});
    start();
  }
  ~Leases() override {
    keeper_.reset();
    queues_.reset();
    std::filesystem::remove_all(folder_);
  }

  void start() {
    LeaseKeeper::Options options;
    options.file = folder_ + "/leases.json";
    options.now_s = [this] { return now_s_.load(); };
    options.retry = options.check = options.grace = std::chrono::milliseconds(5);
    options.reapply = reapply_;
    options.patience = patience_;
    options.tell = [this](const LeaseNews& news) {
      const std::lock_guard lock(mutex_);
      news_.push_back(news.text);
      changed_.notify_all();
    };
    keeper_.emplace(*queues_, std::move(options));
    const auto started = keeper_->start();
    ASSERT_TRUE(started) << started.error().message;
  }
  void kill_daemon() { keeper_.reset(); }

  Result<Lease> create(std::uint32_t watts, std::uint32_t holder, std::uint32_t ttl_s = 0,
                       std::vector<std::string> gpus = {"GPU-test-0"}) {
    LeaseTerms terms{.wanted = {}, .holder_pid = holder, .ttl_s = ttl_s};
    for (const std::string& gpu : gpus) terms.wanted[gpu].power_limit_mw = watts * 1000;
    return create(std::move(terms));
  }
  Result<Lease> create(LeaseTerms terms) {
    std::promise<Result<Lease>> promise;
    keeper_->create(std::move(terms), 1000, [&promise](Result<Lease> lease) { promise.set_value(std::move(lease)); });
    return promise.get_future().get();
  }
  Result<void> end(const std::string& id) {
    std::promise<Result<void>> promise;
    keeper_->end(id, [&promise](Result<void> done) { promise.set_value(std::move(done)); });
    return promise.get_future().get();
  }
  std::uint64_t limit(std::uint32_t gpu = 0) { return queues_->gpu(gpu).read(Operation::get_power_limit).value_or(0); }
  // Waits for news that contain the text.
  bool heard(const std::string& words) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] {
      return std::ranges::any_of(news_, [&](const std::string& one) { return one.contains(words); });
    });
  }

  bool reapply_ = false;
  std::chrono::milliseconds patience_{20'000};
  std::string folder_;
  std::atomic<std::int64_t> now_s_ = 1'000'000;
  std::deque<Recording> gpus_;
  std::optional<ControlQueues> queues_;
  std::optional<LeaseKeeper> keeper_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> news_;
};

TEST_F(Leases, TheValueIsRestoredWhenTheHolderDies) {
  Holder holder;
  const auto lease = create(200, holder.pid());
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ(limit(), 200'000u);
  holder.end();
  EXPECT_TRUE(heard("its holder has ended; its values are put back"));
  EXPECT_EQ(limit(), 100'000u);
  EXPECT_TRUE(keeper_->list().empty());
  EXPECT_TRUE(load_leases(folder_ + "/leases.json")->empty());
}

TEST_F(Leases, ALeaseEndsWithItsTimeOrWhenReturned) {
  const auto first = create(200, 0, 60);
  ASSERT_TRUE(first) << first.error().message;
  now_s_ += 59;
  EXPECT_EQ(keeper_->prolong(first->id)->ends_at_s, now_s_ + 60);
  EXPECT_TRUE(end(first->id));
  EXPECT_EQ(limit(), 100'000u);
  EXPECT_EQ(end(first->id).error().code, ErrorCode::not_found);
  const auto second = create(200, 0, 60);
  ASSERT_TRUE(second);
  now_s_ += 60;
  // Any work makes the keeper check the time.
  (void)end("nothing");
  EXPECT_TRUE(heard("its time is over"));
  EXPECT_EQ(limit(), 100'000u);
}

TEST_F(Leases, ASecondWriterIsRefusedWithTheHoldersName) {
  Holder holder;
  const auto first = create(200, holder.pid(), 0, {"GPU-test-0", "GPU-test-1"});
  ASSERT_TRUE(first) << first.error().message;
  const auto second = create(150, 0, 60, {"GPU-test-1"});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::conflict);
  EXPECT_EQ(second.error().message, "GPU 1: the power limit is held by lease " + first->id + " of uid 1000 (process " +
                                        std::to_string(holder.pid()) + ")");
  const Command limit_of{.operation = Operation::set_power_limit};
  EXPECT_EQ(keeper_->holder_of("GPU-test-1", limit_of)->id, first->id);
  EXPECT_FALSE(keeper_->holder_of("GPU-test-1", {.operation = Operation::set_persistence_mode}));
  LeaseTerms other{.wanted = {}, .holder_pid = 0, .ttl_s = 60};
  other.wanted["GPU-test-1"].compute_mode = 3;
  EXPECT_TRUE(create(other)) << "another control of the same GPU";
}

TEST_F(Leases, ALeaseThatCannotBeSavedWritesNothing) {
  std::filesystem::create_directory(folder_ + "/leases.json.new");
  const auto refused = create(200, 0, 60);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("leases.json"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(gpus_[0].written().empty());
  EXPECT_TRUE(keeper_->list().empty());
}

TEST_F(Leases, AFullDiskWritesNothing) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{8, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto refused = create(200, 0, 60);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("cannot write"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(gpus_[0].written().empty());
  EXPECT_TRUE(keeper_->list().empty());
  EXPECT_TRUE(create(200, 0, 60)) << "there is room again";
}

TEST_F(Leases, AGpuThatDoesNotAnswerBlocksNoOther) {
  patience_ = std::chrono::milliseconds(20);
  kill_daemon();
  start();
  gpus_[0].shut();
  std::promise<Result<Lease>> hung;
  LeaseTerms terms{.wanted = {}, .holder_pid = 0, .ttl_s = 60};
  terms.wanted["GPU-test-0"].power_limit_mw = 200'000;
  keeper_->create(terms, 1000, [&hung](Result<Lease> lease) { hung.set_value(std::move(lease)); });
  EXPECT_TRUE(create(200, 0, 60, {"GPU-test-1"})) << "the keeper goes on";
  EXPECT_EQ(hung.get_future().get().error().code, ErrorCode::busy);
  gpus_[0].open();
  while (keeper_->list().size() > 1) std::this_thread::yield();
  EXPECT_EQ(limit(0), 100'000u) << "put back when it answered again";
}

TEST_F(Leases, AForeignSettingIsReportedAndTheOldValueRestored) {
  Holder holder;
  ASSERT_TRUE(create(200, holder.pid()));
  ASSERT_TRUE(queues_->gpu(0).perform({.operation = Operation::set_power_limit, .power_limit_mw = 250'000}));
  EXPECT_TRUE(heard("no longer holds: GPU 0 has power limit 250 W, not 200 W (another program set it)"));
  holder.end();
  EXPECT_TRUE(heard("its values are put back"));
  EXPECT_EQ(limit(), 100'000u);
}

TEST_F(Leases, AFailureHalfWayRestoresEverything) {
  gpus_[1].fail_with(Operation::set_power_limit, {ErrorCode::denied, "permission denied", ""});
  const auto refused = create(200, 0, 60, {"GPU-test-0", "GPU-test-1"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::denied);
  EXPECT_EQ(limit(0), 100'000u) << "it had been set to 200 W";
  gpus_[1].heal();
  EXPECT_TRUE(end("nothing") == std::unexpected(end("nothing").error()));
  while (!keeper_->list().empty()) std::this_thread::yield();  // the other GPU's restore is retried
  EXPECT_EQ(limit(1), 100'000u);
}

TEST_F(Leases, ARestoreContinuesAfterAFailureAndRetries) {
  LeaseTerms terms{.wanted = {}, .holder_pid = 0, .ttl_s = 60};
  Settings& wanted = terms.wanted["GPU-test-0"];
  wanted.power_limit_mw = 200'000;
  wanted.gpu_clocks = ClockRange{210, 900};
  wanted.persistence = false;
  const auto lease = create(terms);
  ASSERT_TRUE(lease) << lease.error().message;
  gpus_[0].fail_with(Operation::reset_gpu_locked_clocks, {ErrorCode::unreachable, "a GPU is lost", ""});
  const auto ended = end(lease->id);
  ASSERT_FALSE(ended);
  EXPECT_EQ(limit(), 100'000u) << "put back although the clocks were not";
  EXPECT_TRUE(*queues_->gpu(0).read(Operation::get_persistence_mode));
  EXPECT_EQ(load_leases(folder_ + "/leases.json")->at(0).ending, true);
  gpus_[0].heal();
  while (!load_leases(folder_ + "/leases.json")->empty()) std::this_thread::yield();
  EXPECT_TRUE(keeper_->list().empty());
}

TEST_F(Leases, AKilledDaemonsLeaseIsAdoptedWhileItsHolderLives) {
  Holder holder;
  ASSERT_TRUE(create(200, holder.pid()));
  kill_daemon();
  EXPECT_EQ(limit(), 200'000u);
  start();
  EXPECT_TRUE(heard("adopted: its holder lives"));
  EXPECT_EQ(limit(), 200'000u);
  holder.end();
  EXPECT_TRUE(heard("its holder has ended; its values are put back"));
  EXPECT_EQ(limit(), 100'000u);
}

TEST_F(Leases, ValuesOfADeadHolderAreRestoredAtTheStart) {
  Holder holder;
  ASSERT_TRUE(create(200, holder.pid()));
  kill_daemon();
  holder.end();
  start();
  EXPECT_TRUE(heard("its holder ended while no daemon ran; its values are put back"));
  EXPECT_EQ(limit(), 100'000u);
}

TEST_F(Leases, AStopRestoresAndTheNextStartSetsAgain) {
  Holder holder;
  ASSERT_TRUE(create(200, holder.pid()));
  EXPECT_TRUE(keeper_->stop(std::chrono::seconds(20)));
  EXPECT_EQ(limit(), 100'000u);
  kill_daemon();
  start();
  EXPECT_TRUE(heard("adopted: its holder lives"));
  EXPECT_EQ(limit(), 200'000u);
}

TEST_F(Leases, TheNextStartRecoversFromAKillAtEachStep) {
  Holder holder;
  holder.end();
  // The file as saved before the writes; any number of the writes may have been done.
  Lease lease{.id = "ab", .wanted = {}, .saved = {}};
  lease.wanted["GPU-test-0"].power_limit_mw = lease.wanted["GPU-test-1"].power_limit_mw = 200'000;
  lease.saved["GPU-test-0"].power_limit_mw = lease.saved["GPU-test-1"].power_limit_mw = 100'000;
  lease.holder_pid = 1;
  lease.holder_start_time = 1;  // matches no process
  for (const std::uint32_t writes : {0u, 1u, 2u}) {
    kill_daemon();
    for (std::uint32_t gpu = 0; gpu < writes; ++gpu)
      ASSERT_TRUE(queues_->gpu(gpu).perform({.operation = Operation::set_power_limit, .power_limit_mw = 200'000}));
    ASSERT_TRUE(save_leases(folder_ + "/leases.json", {lease}));
    start();
    while (!keeper_->list().empty()) std::this_thread::yield();
    EXPECT_EQ(limit(0), 100'000u) << writes;
    EXPECT_EQ(limit(1), 100'000u) << writes;
  }
}

TEST_F(Leases, PersistenceIsReleasedForAResetAndRestored) {
  Holder holder;
  ASSERT_TRUE(create(200, holder.pid(), 0, {"GPU-test-1"}));
  LeaseTerms clocks{.wanted = {}, .holder_pid = holder.pid(), .ttl_s = 0};
  clocks.wanted["GPU-test-0"].gpu_clocks = ClockRange{210, 900};
  ASSERT_TRUE(create(clocks));
  std::promise<Result<void>> promise;
  keeper_->give_up_persistence("all", 60, [&promise](Result<void> done) { promise.set_value(std::move(done)); });
  const auto given = promise.get_future().get();
  ASSERT_TRUE(given) << given.error().message;
  for (const std::uint32_t gpu : {0u, 1u}) EXPECT_FALSE(*queues_->gpu(gpu).read(Operation::get_persistence_mode));
  // Simulates the reset: GPU 1 loses its limit, and GPU 0 disappears for a while.
  ASSERT_TRUE(queues_->gpu(1).perform({.operation = Operation::set_power_limit, .power_limit_mw = 300'000}));
  gpus_[0].fail_with(Operation::set_persistence_mode, {ErrorCode::unreachable, "a GPU is lost", ""});
  kill_daemon();
  now_s_ += 60;
  start();
  EXPECT_TRUE(heard("a GPU is lost"));
  EXPECT_EQ(limit(1), 200'000u) << "the lease on it holds";
  EXPECT_TRUE(*queues_->gpu(1).read(Operation::get_persistence_mode));
  gpus_[0].heal();
  while (keeper_->list().size() > 2) std::this_thread::yield();
  EXPECT_TRUE(*queues_->gpu(0).read(Operation::get_persistence_mode));
  EXPECT_EQ(queues_->locked_clocks(0, Operation::set_gpu_locked_clocks), (ClockRange{210, 900}));
  std::promise<Result<void>> unknown;
  keeper_->give_up_persistence("GPU-none", 60, [&unknown](Result<void> done) { unknown.set_value(std::move(done)); });
  EXPECT_EQ(unknown.get_future().get().error().code, ErrorCode::not_found);
}

TEST_F(Leases, TheSitesSettingsApplyWithoutALeaseAndAfterOne) {
  Holder holder;
  ASSERT_TRUE(create(200, holder.pid()));
  SettingsByGpu site;
  for (const char* gpu : {"GPU-test-0", "GPU-test-1"}) {
    site[gpu].power_limit_mw = 150'000;
    site[gpu].persistence = true;
  }
  std::promise<Result<void>> promise;
  keeper_->set_site(site, [&promise](Result<void> done) { promise.set_value(std::move(done)); });
  EXPECT_TRUE(promise.get_future().get());
  EXPECT_EQ(limit(0), 200'000u) << "the lease's";
  EXPECT_EQ(limit(1), 150'000u);
  kill_daemon();
  start();
  holder.end();
  EXPECT_TRUE(heard("its values are put back"));
  EXPECT_EQ(limit(0), 150'000u);
}

class Sessions : public Leases {
 protected:
  Result<void> begin_write(std::uint32_t holder, std::uint32_t owner_uid = 1000, std::string uuid = "GPU-test-0",
                           Operation operation = Operation::set_power_limit) {
    write_ = {
        .holder_pid = holder, .owner_uid = owner_uid, .uuids = {std::move(uuid)}, .command = {.operation = operation}};
    std::promise<Result<void>> promise;
    keeper_->begin_session_write(write_, [&promise](Result<void> done) { promise.set_value(std::move(done)); });
    return promise.get_future().get();
  }
  SessionWrite write_;
};

TEST_F(Sessions, TheValuesBeforeTheFirstWriteAreRestored) {
  Holder holder;
  ASSERT_TRUE(begin_write(holder.pid()));
  EXPECT_TRUE(keeper_->covers(write_)) << "the next write of this control need not wait";
  ASSERT_TRUE(queues_->gpu(0).perform({.operation = Operation::set_power_limit, .power_limit_mw = 200'000}));
  ASSERT_TRUE(queues_->gpu(0).perform({.operation = Operation::set_power_limit, .power_limit_mw = 250'000}));
  write_.uuids = {"GPU-test-1"};
  EXPECT_FALSE(keeper_->covers(write_));
  ASSERT_TRUE(begin_write(holder.pid(), 1000, "GPU-test-1", Operation::set_persistence_mode));
  ASSERT_TRUE(queues_->gpu(1).perform({.operation = Operation::set_persistence_mode, .enabled = false}));
  EXPECT_EQ(keeper_->list().size(), 1u);
  EXPECT_EQ(load_leases(folder_ + "/leases.json")->at(0).saved.size(), 2u) << "saved before the write";
  holder.end();
  EXPECT_TRUE(heard("its process has ended; its values are put back"));
  EXPECT_EQ(limit(), 100'000u);
  EXPECT_TRUE(*queues_->gpu(1).read(Operation::get_persistence_mode));
}

TEST_F(Sessions, ASessionThatOutlivesTheDaemonIsAdopted) {
  Holder holder;
  ASSERT_TRUE(begin_write(holder.pid()));
  ASSERT_TRUE(queues_->gpu(0).perform({.operation = Operation::set_power_limit, .power_limit_mw = 200'000}));
  kill_daemon();
  start();
  EXPECT_TRUE(heard("adopted: its holder lives"));
  EXPECT_EQ(limit(), 200'000u);
  holder.end();
  EXPECT_TRUE(heard("its values are put back"));
  EXPECT_EQ(limit(), 100'000u);
}

TEST_F(Sessions, AWriteThatCannotBeSavedDoesNotBegin) {
  Holder holder, gone;
  gone.end();
  EXPECT_FALSE(begin_write(gone.pid() == 0 ? 4'000'000 : gone.pid())) << "no such process";
  std::filesystem::create_directory(folder_ + "/leases.json.new");
  EXPECT_FALSE(begin_write(holder.pid()));
  EXPECT_FALSE(keeper_->covers(write_));
  EXPECT_TRUE(keeper_->list().empty());
}

TEST_F(Sessions, AnotherUsersLeaseIsNotOverwritten) {
  Holder holder, other;
  ASSERT_TRUE(create(200, holder.pid()));
  const auto refused = begin_write(other.pid(), 1001);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::conflict);
  EXPECT_NE(refused.error().message.find("of uid 1000 (process"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(begin_write(other.pid(), 1000)) << "the owner of the lease may";
}

TEST_F(Leases, AKeptLeaseLeavesWhatItSet) {
  Holder holder;
  const auto lease = create(200, holder.pid());
  ASSERT_TRUE(lease) << lease.error().message;
  std::promise<Result<void>> promise;
  keeper_->keep(lease->id, [&promise](Result<void> done) { promise.set_value(std::move(done)); });
  EXPECT_TRUE(promise.get_future().get());
  EXPECT_TRUE(load_leases(folder_ + "/leases.json")->empty());
  holder.end();
  EXPECT_FALSE(end(lease->id)) << "it is no lease any more";
  EXPECT_EQ(limit(), 200'000u);
}

TEST_F(Leases, ASecondWritersSettingIsReportedOnceWithItsCause) {
  Holder holder;
  ASSERT_TRUE(create(200, holder.pid()));
  ASSERT_TRUE(queues_->gpu(0).perform(
      {.operation = Operation::set_power_limit, .power_limit_mw = 250'000}));  // as another program would
  EXPECT_TRUE(heard("no longer holds: GPU 0 has power limit 250 W, not 200 W (another program set it)"));
  ASSERT_TRUE(queues_->gpu(0).perform({.operation = Operation::set_power_limit, .power_limit_mw = 300'000}));
  gpus_[0].set_energy(1);
  EXPECT_TRUE(heard("has power limit 300 W, not 200 W (the driver was reloaded, or the GPU reset)"));
  EXPECT_EQ(limit(), 300'000u) << "it is only told";
  holder.end();
  EXPECT_TRUE(heard("its values are put back"));
  EXPECT_EQ(limit(), 100'000u);
}

TEST_F(Leases, ALostSettingIsSetAgainIfAsked) {
  kill_daemon();
  reapply_ = true;
  start();
  Holder holder;
  ASSERT_TRUE(create(200, holder.pid()));
  ASSERT_TRUE(queues_->gpu(0).perform({.operation = Operation::set_power_limit, .power_limit_mw = 250'000}));
  EXPECT_TRUE(heard("set again"));
  EXPECT_EQ(limit(), 200'000u);
}

TEST_F(Leases, ADamagedFileEndsTheStartAndStays) {
  kill_daemon();
  const std::string path = folder_ + "/leases.json";
  ASSERT_TRUE(save_leases(path, {}));
  std::filesystem::resize_file(path, 1);
  LeaseKeeper keeper(*queues_, {.file = path, .now_s = [] { return std::int64_t{0}; }, .tell = {}});
  EXPECT_FALSE(keeper.start());
  EXPECT_EQ(std::filesystem::file_size(path), 1u);
}

TEST_F(Leases, AMissingHolderIsRefused) {
  Holder holder;
  const std::uint32_t pid = holder.pid();
  holder.end();
  EXPECT_FALSE(create(200, pid));
  EXPECT_FALSE(create(200, 0, 60, {"7"}));
  EXPECT_TRUE(gpus_[0].written().empty());
}

}  // namespace
}  // namespace headgate::power
