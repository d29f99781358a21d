#include "observe/observer.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "observe/test_nvml.hpp"

namespace headgate::observe {
namespace {

Script& fresh_script() {
  auto& script = *reinterpret_cast<Script* (*)()>(::dlsym(::dlopen(SCRIPTED_NVML, RTLD_NOW), "scripted_nvml"))();
  script = {};
  return script;
}

// Readiness and the age of figures depend on this: a new snapshot does not mean that the driver answered.
TEST(Observer, AStaleSnapshotHasItsAgeAndNoProcesses) {
  auto& script = fresh_script();
  script.compute = {{{.pid = 41, .bytes = 1 << 20}}};
  EventLog events;
  ObserverSources sources;
  sources.nvml_library = SCRIPTED_NVML;
  Observer observer(std::move(sources), {}, events);
  ASSERT_TRUE(observer.start());
  const NodeSnapshot with = observer.look();
  EXPECT_FALSE(with->node.nvml_released);
  EXPECT_EQ(with->processes.size(), 1u);
  EXPECT_LE(observer.driver_answered_ns(), with->taken_ns);
  script.answers = false;
  const std::uint64_t last_ns = observer.driver_answered_ns();
  const NodeSnapshot gone = observer.look(), still_gone = observer.look();
  EXPECT_EQ(observer.driver_answered_ns(), last_ns);
  for (const NodeSnapshot& snapshot : {gone, still_gone}) {
    EXPECT_TRUE(snapshot->node.nvml_released);
    EXPECT_LT(last_ns, snapshot->taken_ns) << "the snapshot is new, the driver's word is not";
    EXPECT_TRUE(snapshot->processes.empty()) << "it is not known which processes have ended meanwhile";
    EXPECT_EQ(snapshot->gpus.size(), 1u) << "what is known stays";
  }
  script.answers = true;
  const NodeSnapshot back = observer.look();
  EXPECT_FALSE(back->node.nvml_released);
  EXPECT_GT(observer.driver_answered_ns(), still_gone->taken_ns);
}

// An unrelated process, such as a shell, may have such a number here.
TEST(Observer, PidsOfAnotherNamespaceAreNotUsed) {
  auto& script = fresh_script();
  script.compute = {{{.pid = 1, .bytes = 1 << 20}}};
  EventLog events;
  std::optional<DriverMemory> told;
  ObserverSources sources;
  sources.nvml_library = SCRIPTED_NVML;
  sources.foreign_pids = true;
  sources.after_reading = [&](const DriverMemory& memory) { told = memory; };
  Observer observer(std::move(sources), {}, events);
  ASSERT_TRUE(observer.start());
  for (int look = 0; look < 5; ++look) EXPECT_TRUE(observer.look()->processes.empty());
  observer.stop();
  EXPECT_TRUE(events.after(0).empty());
  ASSERT_TRUE(told);
  EXPECT_EQ(told->bytes_of("GPU-a", 1), std::nullopt);
  EXPECT_EQ(told->bytes_of("GPU-a", 2), std::nullopt) << "0 would be what its context takes";
  EXPECT_EQ(told->unattributed_on("GPU-a"), std::nullopt);
}

std::atomic<bool> hangs{false}, asked{false};

TEST(Observer, ItStopsWhileAnotherLookIsInAHungDriver) {
  auto& script = fresh_script();
  EventLog events;
  ObserverSources sources;
  sources.nvml_library = SCRIPTED_NVML;
  Observer observer(std::move(sources), {}, events);
  ASSERT_TRUE(observer.start());
  ASSERT_TRUE(observer.stops_within(std::chrono::seconds(60)));
  hangs = true;
  script.when_counted = [] {
    asked = true;
    while (hangs) std::this_thread::yield();
  };
  std::thread other([&] { (void)observer.look(); });
  while (!asked) std::this_thread::yield();
  EXPECT_FALSE(observer.stops_within(std::chrono::seconds(0)));
  hangs = false;
  other.join();
  EXPECT_TRUE(observer.stops_within(std::chrono::seconds(60)));
}

}  // namespace
}  // namespace headgate::observe
