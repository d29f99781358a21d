#include "observe/driver_memory.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvml/accounting.hpp"
#include "observe/test_nvml.hpp"

namespace headgate::observe {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr const char* kGpu = "GPU-a";

class DriverMemoryTest : public ::testing::Test {
 protected:
  DriverMemoryTest()
      : library_(nvml::Library::open(SCRIPTED_NVML).value()),
        script_(*reinterpret_cast<Script* (*)()>(::dlsym(::dlopen(SCRIPTED_NVML, RTLD_NOW), "scripted_nvml"))()) {
    script_ = {};
  }
  DriverMemory read() { return read_memory(library_).value(); }

  nvml::Library library_;
  Script& script_;
  const unsigned self_ = static_cast<unsigned>(::getpid());  // a living process
};

TEST_F(DriverMemoryTest, UnownedMemoryIsTheCardsLessThatOfProcesses) {
  script_.compute = {{{self_, 3 * kGiB}}};
  script_.used_bytes = {5 * kGiB};
  const auto memory = read();
  EXPECT_EQ(memory.bytes_of(kGpu, self_), 3 * kGiB);
  EXPECT_EQ(memory.bytes_of(kGpu, self_ + 1), 0u) << "the driver lists everybody";
  EXPECT_EQ(memory.bytes_of("GPU-b", self_), std::nullopt);
  EXPECT_EQ(memory.unattributed_on(kGpu), 2 * kGiB);
  EXPECT_EQ(memory.cards.at(kGpu).total_bytes, kScriptedTotal);
}

TEST_F(DriverMemoryTest, ChangesDuringTheReadingNeverLowerTheBound) {
  // Two GiB belong to no process. Another two are allocated after the card was asked, or freed before.
  script_.used_bytes = {3 * kGiB, 5 * kGiB};
  script_.compute = {{{self_, 1 * kGiB}}, {{self_, 3 * kGiB}}};
  EXPECT_GE(read().unattributed_on(kGpu), 2 * kGiB);
  script_ = {};
  script_.used_bytes = {3 * kGiB};
  script_.compute = {{{self_, 3 * kGiB}}, {{self_, 1 * kGiB}}};
  EXPECT_GE(read().unattributed_on(kGpu), 2 * kGiB);
  // Freed and allocated again around one question to the card.
  script_ = {};
  script_.used_bytes = {2 * kGiB, 5 * kGiB};
  script_.compute = {{{self_, 3 * kGiB}}};
  EXPECT_GE(read().unattributed_on(kGpu), 2 * kGiB);
}

TEST_F(DriverMemoryTest, EndedProcessesThatAreStillListedHoldNothing) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << "only /proc tells which processes are dead";
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(dead), &ended, WEXITED | WNOWAIT), 0);  // still a zombie
  script_.compute = {{{self_, 1 * kGiB}, {static_cast<unsigned>(dead), 3 * kGiB}}};
  script_.used_bytes = {4 * kGiB};
  EXPECT_EQ(read().unattributed_on(kGpu), 3 * kGiB);
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  EXPECT_EQ(read().unattributed_on(kGpu), 3 * kGiB);
}

TEST_F(DriverMemoryTest, MpsClientsAreOrdinaryProcesses) {
  script_.compute = {{{self_, 1 * kGiB}}};
  script_.mps = {{self_, 2 * kGiB}, {self_ + 1, 4 * kGiB}};
  const auto memory = read();
  ASSERT_EQ(memory.processes.size(), 2u);
  EXPECT_TRUE(memory.processes[0].mps);
  EXPECT_EQ(memory.bytes_of(kGpu, self_), 2 * kGiB);
  EXPECT_EQ(memory.bytes_of(kGpu, self_ + 1), 4 * kGiB);
}

TEST_F(DriverMemoryTest, UnreportedValuesAreNotGuessed) {
  script_.compute = {{{self_, ~0ull}}};
  script_.used_bytes = {4 * kGiB};
  EXPECT_EQ(read().bytes_of(kGpu, self_), std::nullopt);
  EXPECT_EQ(read().unattributed_on(kGpu), std::nullopt);
}

TEST_F(DriverMemoryTest, AListLongerThanItsBufferIsReadWhole) {
  std::vector<ScriptedRow> many;
  for (unsigned i = 0; i < 1000; ++i) many.push_back({100'000 + i, 1});
  script_.compute = {many};
  EXPECT_EQ(read().processes.size(), 1000u);
}

class Accounting : public DriverMemoryTest {
 protected:
  std::vector<nvml::Ended> look(const std::set<std::uint32_t>& running = {}) {
    return watch_.look(library_, reinterpret_cast<abi::nvmlDevice_t>(&script_), kGpu, running);
  }
  nvml::AccountingWatch watch_;
};

TEST_F(Accounting, EachEndIsReportedOnceAndEarlierOnesAreNot) {
  script_.accounting = true;
  script_.accounted = {{7, kGiB, false}};
  EXPECT_TRUE(look().empty());
  script_.accounted.push_back({8, 2 * kGiB, true});
  EXPECT_TRUE(look({8}).empty()) << "it still runs";
  script_.accounted.back().running = false;
  const auto ended = look();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0],
            (nvml::Ended{.uuid = kGpu, .pid = 8, .peak_bytes = 2 * kGiB, .busy_ratio = 0.4, .lived_ms = 300}));
  EXPECT_TRUE(look().empty());
  // The number is reused, and ends again.
  EXPECT_TRUE(look({8}).empty());
  EXPECT_EQ(look().size(), 1u);
}

TEST_F(Accounting, StaysOffIfItIsOff) {
  script_.accounted = {{7, kGiB, false}};
  EXPECT_TRUE(look().empty());
  EXPECT_TRUE(look().empty());
  EXPECT_FALSE(script_.accounting);
}

}  // namespace
}  // namespace headgate::observe
