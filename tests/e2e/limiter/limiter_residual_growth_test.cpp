// Memory that contexts take without an allocation call counts against the share.
#include <chrono>
#include <filesystem>

#include "guest/ledger/oom_wait.hpp"
#include "limiter_pool.hpp"
#include "sim/faults.hpp"

using namespace headgate;
using namespace headgate::e2e;

namespace {

constexpr std::uint64_t kDeep = 3072ull * 20 * 2048;  // more than the default stack for every thread of "tiny"

TEST(Residual, LocalMemoryOfALaunchIsChargedWithin100Ms) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("576MiB"));
  EXPECT_EQ(tenant.does("info"), "0");
  EXPECT_EQ(tenant.does("deep"), "0");
  EXPECT_EQ(tenant.does("linear:1"), "0");  // use changed, so it is measured soon
  const Owner owner(runtime);
  EXPECT_TRUE(comes_true([&] { return owner.residual() == kContext + kDeep; }));
  EXPECT_EQ(truth(runtime).processes.at(0).context_bytes, owner.residual());
  EXPECT_EQ(owner.used(), really_held(runtime));
  EXPECT_EQ(tenant.does(bytes("linear", 400 * kMiB)), "2");
  EXPECT_EQ(tenant.does(bytes("linear", 390 * kMiB)), "0");
}

TEST(Residual, AHeapIsChargedBeforeTheNextAllocation) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("576MiB"));
  EXPECT_EQ(tenant.does("info"), "0");
  EXPECT_EQ(tenant.does(bytes("heap", 208 * kMiB)), "0");
  EXPECT_EQ(tenant.does(bytes("linear", 313 * kMiB)), "2");
  EXPECT_EQ(tenant.does(bytes("linear", 311 * kMiB)), "0");
  const Owner owner(runtime);
  EXPECT_EQ(owner.residual(), kContext + 200 * kMiB);
}

// Allocations wait for memory here (--on-oom=wait), but not the look-up of a kernel.
TEST(Residual, AKernelWithoutRoomIsRefusedAtOnce) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("200MiB"));
  EXPECT_EQ(tenant.does(bytes("linear", 100 * kMiB)), "0");
  const Owner owner(runtime);
  ledger::set_value(*owner.pages.writable_policy, &ledger::PolicyPage::oom_wait_ms, 1);
  EXPECT_EQ(tenant.does("deep"), "2");
  EXPECT_EQ(ledger::last_want(*owner.pages.usage, 0).epoch, 0u);
  EXPECT_EQ(tenant.does(bytes("linear", 100 * kMiB)), "2");
  EXPECT_EQ(ledger::last_want(*owner.pages.usage, 0).bytes, 100 * kMiB);
}

// A context has a heap of 8 MiB and a buffer of 1 MiB from its creation, and its size includes them.
TEST(Residual, ALimitThatWasLoweredIsNotChargedAgain) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("576MiB"));
  EXPECT_EQ(tenant.does("info"), "0");
  const Owner owner(runtime);
  for (const auto& [limit, usual] : {std::pair("heap", 8 * kMiB), std::pair("printf", kMiB)}) {
    for (const std::uint64_t value : {0ul, usual / 2, usual, 0ul, usual + 3 * kMiB, usual + kMiB, 0ul, usual}) {
      EXPECT_EQ(tenant.does(bytes(limit, value)), "0");
      const std::uint64_t beyond = value > usual ? value - usual : 0;
      EXPECT_EQ(owner.residual(), kContext + beyond) << limit << " " << value;
      EXPECT_EQ(truth(runtime).processes.at(0).context_bytes, kContext + beyond);
    }
  }
}

// A driver whose contexts begin with a larger heap than usual.
TEST(Residual, AHeapIsChargedBeyondTheDriversOwn) {
  const Runtime runtime;
  sim::Profile profile = *sim::find_profile("tiny");
  profile.heap_bytes = 24 * kMiB;
  ASSERT_TRUE(sim::create_node(runtime.path() + "/run-node", profile));
  Led tenant(runtime, on_tiny("576MiB"));
  EXPECT_EQ(tenant.does("info"), "0");
  const Owner owner(runtime);
  for (const std::uint64_t value : {16ul, 24ul, 40ul, 32ul, 8ul, 25ul}) {
    EXPECT_EQ(tenant.does(bytes("heap", value * kMiB)), "0");
    EXPECT_EQ(owner.residual(), kContext + (value > 24 ? value - 24 : 0) * kMiB) << value;
    EXPECT_EQ(truth(runtime).processes.at(0).context_bytes, owner.residual());
  }
}

// As on a card of that size: the refused memory is not on the card, and what fits can be allocated at once.
class Unannounced : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Calls, Unannounced,
                         testing::Values(bytes("module", 400 * kMiB), bytes("packed", 400 * kMiB),
                                         bytes("library", 400 * kMiB), bytes("other-library", 400 * kMiB),
                                         bytes("heap", 400 * kMiB), "stack:10240", bytes("printf", 400 * kMiB),
                                         "deep"));

TEST_P(Unannounced, IsRefusedPastTheLimitAndLeavesNothing) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("164MiB"));
  EXPECT_EQ(tenant.does(GetParam()), "2");
  EXPECT_EQ(truth(runtime).processes.at(0).context_bytes + really_held(runtime), kContext);
  EXPECT_EQ(tenant.does(bytes("linear", 99 * kMiB)), "0");
  EXPECT_EQ(tenant.does(bytes("linear", 2 * kMiB)), "2");
}

TEST_P(Unannounced, IsAcceptedIfItFits) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  EXPECT_EQ(tenant.does(GetParam()), "0");
  const std::uint64_t taken = truth(runtime).used_bytes - kContext;
  EXPECT_GE(taken, 100 * kMiB);
  EXPECT_EQ(tenant.does(bytes("linear", 1024 * kMiB - kContext - taken + kMiB)), "2");
}

// A driver that does not report the threads per multiprocessor (39 in cuda.h): at most 2048. A stack's growth cannot be
// undone.
class UnannouncedThreads : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Calls, UnannouncedThreads, testing::Values("stack:10240", "deep"));

TEST_P(UnannouncedThreads, AreRefusedPastTheLimitAndAcceptedWithinIt) {
  const auto untold = [](const Runtime& runtime, Led& tenant) {
    EXPECT_EQ(tenant.does("info"), "0");
    return sim::write_faults(runtime.path() + "/run-node", "cuDeviceGetAttribute:fail=801:attribute=39").has_value();
  };
  {
    const Runtime runtime;
    Led tenant(runtime, on_tiny("164MiB"));
    ASSERT_TRUE(untold(runtime, tenant));
    EXPECT_EQ(tenant.does(GetParam()), "2");
    EXPECT_EQ(truth(runtime).processes.at(0).context_bytes + really_held(runtime), kContext);
    EXPECT_EQ(tenant.does(bytes("linear", 99 * kMiB)), "0");
    EXPECT_EQ(tenant.does(bytes("linear", 2 * kMiB)), "2");
  }
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  ASSERT_TRUE(untold(runtime, tenant));
  EXPECT_EQ(tenant.does(GetParam()), "0");
  const std::uint64_t taken = truth(runtime).used_bytes - kContext;
  EXPECT_GE(taken, 100 * kMiB);
  EXPECT_EQ(tenant.does(bytes("linear", 1024 * kMiB - kContext - taken + kMiB)), "2");
}

// Without the number of multiprocessors (16) too, the fail policy decides.
class UnannouncedProcessors : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Calls, UnannouncedProcessors, testing::Values("stack:4096", "deep"));

TEST_P(UnannouncedProcessors, LeaveStacksToTheFailPolicy) {
  for (const std::string policy : {"open", "closed"}) {
    const Runtime runtime;
    Tenant with_policy = on_tiny("300MiB");
    with_policy.environment["HEADGATE_FAIL_POLICY"] = policy;
    Led tenant(runtime, with_policy);
    EXPECT_EQ(tenant.does("info"), "0");
    ASSERT_TRUE(sim::write_faults(runtime.path() + "/run-node", "cuDeviceGetAttribute:fail=801:attribute=16"));
    EXPECT_EQ(tenant.does(GetParam()), policy == "open" ? "0" : "2");
    if (policy == "closed") continue;
    // Measured afterwards.
    const Owner owner(runtime);
    EXPECT_TRUE(comes_true([&] { return owner.residual() == kContext + kDeep; }));
    EXPECT_EQ(tenant.does(bytes("linear", 120 * kMiB)), "2");
  }
}

// What the image declares is refused without calling the driver, so the limit is never exceeded.
TEST(Unannounced, APackedImageIsRefusedBeforeItIsLoaded) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("164MiB"));
  EXPECT_EQ(tenant.does("info"), "0");
  const std::string node = runtime.path() + "/run-node";
  ASSERT_TRUE(sim::write_faults(node, "cuModuleLoadFatBinary:delay_us=0"));  // counted
  EXPECT_EQ(tenant.does(bytes("packed", 400 * kMiB)), "2");
  EXPECT_EQ(sim::fault_hits(node)->at(0), 0u);
  EXPECT_EQ(tenant.does(bytes("packed", 90 * kMiB)), "0");
  EXPECT_EQ(sim::fault_hits(node)->at(0), 1u);
}

TEST(Unannounced, AnUnloadedModuleLeavesItsRoom) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("164MiB"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tenant.does(bytes("module", 90 * kMiB)), "0");
    EXPECT_EQ(tenant.does("unload"), "0");
    EXPECT_EQ(tenant.does(bytes("library", 90 * kMiB)), "0");
    EXPECT_EQ(tenant.does("-library"), "0");
  }
}

// However small each module's arrays are.
TEST(Unannounced, ManySmallModulesAreRefusedPastTheLimit) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("164MiB"));
  EXPECT_EQ(tenant.does("modules:1000"), "2 200");
  EXPECT_LE(truth(runtime).used_bytes, 164 * kMiB);
}

// The code of an eager load is the share's at once, arrays or not.
TEST(Unannounced, EagerlyLoadedCodeIsRefusedPastTheLimit) {
  const Runtime runtime;
  Tenant eager = on_tiny("164MiB");
  eager.environment["CUDA_MODULE_LOADING"] = "EAGER";
  Led tenant(runtime, eager);
  EXPECT_EQ(tenant.does(bytes("linear", 90 * kMiB)), "0");
  EXPECT_EQ(tenant.does(bytes("code", 200 * kMiB)), "2");
  EXPECT_EQ(truth(runtime).used_bytes, kContext + 90 * kMiB);
  EXPECT_EQ(tenant.does(bytes("code", 8 * kMiB)), "0");
  EXPECT_EQ(tenant.does("modules:1000"), "2 3") << "of 512 KiB, in 2 MiB less an array";
}

// Until it is measured, too: other requests find what the image shows taken.
TEST(Unannounced, WhatAnImageShowsIsHeldWhileItsLoadIsMeasured) {
  const Runtime runtime;
  Tenant eager = on_tiny("164MiB");
  eager.environment["CUDA_MODULE_LOADING"] = "EAGER";
  Led loads(runtime, eager), asks(runtime, eager);
  EXPECT_EQ(loads.does("info") + asks.does("info"), "00");
  const std::string node = runtime.path() + "/run-node";
  ASSERT_TRUE(sim::write_faults(node, "nvmlDeviceGetComputeRunningProcesses_v3:delay_us=300000"));
  const std::uint64_t used = truth(runtime).used_bytes, room = 164 * kMiB - used;
  loads.running.say(bytes("shown-code", 8 * kMiB) + "\n");
  EXPECT_TRUE(comes_true([&] { return truth(runtime).used_bytes > used + 8 * kMiB; }));
  EXPECT_EQ(asks.does(bytes("linear", room - kMiB)), "2");
  EXPECT_EQ(loads.running.next_line(), bytes("shown-code", 8 * kMiB) + ": 0");
  EXPECT_EQ(asks.does(bytes("linear", 164 * kMiB - truth(runtime).used_bytes)), "0");
}

// It is loaded in each context that used it, and unloaded from all.
TEST(Unannounced, AnUnloadedLibraryLeavesItsRoomInEachContext) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("328MiB"));
  EXPECT_EQ(tenant.does("context"), "0");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tenant.does(bytes("library", 90 * kMiB)), "0");
    EXPECT_EQ(tenant.does("library-there"), "0");
    EXPECT_EQ(tenant.does(bytes("linear", 40 * kMiB)), "2");
    EXPECT_EQ(tenant.does("-library"), "0");
    EXPECT_EQ(truth(runtime).used_bytes, 2 * kContext);
  }
}

// Managed memory and physical memory of sizes that are no multiple of anything.
TEST(OddSizes, AreChargedOrRefusedAsTheDriverWould) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("164MiB"));
  const Owner owner(runtime);
  for (const std::uint64_t most : {~0ull, ~0ull - 511, 1ull << 63}) {
    EXPECT_EQ(tenant.does(bytes("managed", most)), "2");
    EXPECT_EQ(tenant.does(bytes("linear", most)), "2");
  }
  EXPECT_EQ(tenant.does(bytes("physical", ~0ull)), "1");
  EXPECT_EQ(tenant.does(bytes("physical", 3 * kMiB + 1)), "1");
  EXPECT_EQ(tenant.does(bytes("physical", ~0ull << 30)), "2");
  EXPECT_EQ(owner.used(), 0u);
  EXPECT_EQ(tenant.does(bytes("managed", 60 * kMiB + 1)), "0");
  EXPECT_EQ(owner.used(), 60 * kMiB + 1);
  EXPECT_EQ(tenant.does(bytes("physical", 40 * kMiB)), "2");
  EXPECT_EQ(tenant.does(bytes("physical", 38 * kMiB)), "0");
  EXPECT_EQ(tenant.does("now:0"), "0");
  EXPECT_EQ(tenant.does("-physical"), "0");
  EXPECT_EQ(owner.used(), 0u);
}

TEST(FreeMemory, IsCurrentAtOnce) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  const std::string before = tenant.does("left");
  for (const std::string at : {"0", "1", "2"}) {
    EXPECT_EQ(tenant.does(bytes("linear", 700 * kMiB)), "0");
    EXPECT_NE(tenant.does("left"), before);
    EXPECT_EQ(tenant.does("now:" + at), "0");
    EXPECT_EQ(tenant.does("left"), before);
  }
}

TEST(LoweredLimit, BelowUseRefusesUntilEnoughIsFreed) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(tenant.does(bytes("linear", 100 * kMiB)), "0");
  const Owner owner(runtime);
  owner.pages.writable_policy->devices[0].memory_limit_bytes = 400 * kMiB;
  EXPECT_EQ(tenant.does("left"), "0 0");
  for (const std::string& request :
       {bytes("linear", 1), bytes("alloc", 1), bytes("managed", 1), bytes("physical", 2 * kMiB), std::string("context"),
        bytes("module", kMiB), std::string("stack:2048")}) {
    EXPECT_EQ(tenant.does(request), "2") << request;
  }
  for (const char* const freed : {"now:0", "now:1"}) EXPECT_EQ(tenant.does(freed), "0");
  EXPECT_EQ(tenant.does("left"), "0 " + std::to_string(36 * kMiB));
  EXPECT_EQ(tenant.does(bytes("linear", 37 * kMiB)), "2");
  EXPECT_EQ(tenant.does(bytes("linear", 36 * kMiB)), "0");
  EXPECT_EQ(tenant.does("left"), "0 0");
}

// If NVML does not reply, contexts stay charged with their last value; it is corrected when NVML works again.
class SilentNvml : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Policies, SilentNvml, testing::Values("open", "closed"));

TEST_P(SilentNvml, LeavesTheLastFigureInForce) {
  const Runtime runtime;
  Tenant tenant = on_tiny("1GiB");
  tenant.environment["HEADGATE_FAIL_POLICY"] = GetParam();
  Led led(runtime, tenant);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(led.does("context"), "0");
  const Owner owner(runtime);
  EXPECT_TRUE(comes_true([&] { return owner.residual() == 4 * kContext; }));
  for (const char* rules :
       {"nvmlDevice*:fail=999", "nvmlDeviceGetComputeRunningProcesses_v3:fail=15", "nvml*:fail=1"}) {
    SCOPED_TRACE(rules);
    ASSERT_TRUE(sim::write_faults(runtime.path() + "/run-node", rules));
    EXPECT_EQ(led.does("heap:9437184"), "0");  // use changes
    EXPECT_EQ(led.does("heap:8388608"), "0");
    led.does("left");
    EXPECT_EQ(led.does(bytes("linear", 1024 * kMiB - 4 * kContext + kMiB)), "2");
    EXPECT_EQ(owner.residual(), 4 * kContext);
  }
  ASSERT_TRUE(sim::write_faults(runtime.path() + "/run-node", ""));
  EXPECT_EQ(led.does("-context"), "0");
  EXPECT_TRUE(comes_true([&] { return led.does("left") == "0 " + std::to_string(1024 * kMiB - 3 * kContext); }));
}

TEST(SilentNvml, DoesNotProveThatMemoryIsGone) {
  const Runtime runtime;
  Led stays(runtime, on_tiny("1GiB")), ends(runtime, on_tiny("1GiB"));
  EXPECT_EQ(stays.does("linear:1048576"), "0");
  EXPECT_EQ(ends.does(bytes("linear", 500 * kMiB)), "0");
  const std::string node = runtime.path() + "/run-node", more = bytes("linear", 600 * kMiB);
  ASSERT_TRUE(sim::write_faults(node, "nvmlDevice*:fail=999"));
  ends.running.kill_and_wait();
  EXPECT_EQ(stays.does(more), "2");
  ASSERT_TRUE(sim::write_faults(node, ""));
  EXPECT_TRUE(comes_true([&] { return stays.does(more) == "0"; }));
}

// A program that shuts NVML down too often would shut it down for the limiter too.
TEST(Nvml, StaysOpenAfterTheProgramShutsItDown) {
  const Runtime runtime;
  Led led(runtime, on_tiny("1GiB"));
  EXPECT_EQ(led.does("linear:1048576"), "0");
  for (int i = 0; i < 5; ++i) led.does("end-nvml");
  EXPECT_EQ(led.does("context"), "0");
  const Owner owner(runtime);
  EXPECT_TRUE(comes_true([&] { return led.does("left"), owner.residual() == 2 * kContext; }));
  EXPECT_EQ(led.does("deep"), "0");
  EXPECT_TRUE(comes_true([&] { return led.does("left"), owner.residual() == 2 * kContext + kDeep; }));
}

// However many processes are in the share, a query costs one driver call, and an NVML call only now and then.
TEST(FreeMemory, AsksNvmlNotEachTime) {
  const Runtime runtime;
  Tenant counted = on_tiny("1GiB");
  counted.environment["HEADGATE_SIM_FAULT"] = "nvml*:delay_us=0";
  Led tenant(runtime, counted), other(runtime, on_tiny("1GiB"));
  tenant.does("look:1");
  const auto asked = [&] { return sim::fault_hits(runtime.path() + "/run-node")->at(0); };
  const std::uint64_t before = asked();
  EXPECT_EQ(tenant.does("look:2000"), "0");
  EXPECT_LT(asked() - before, 2000U);
}

TEST(ProcessList, NamesNoProcessThatHasEnded) {
  const Runtime runtime;
  Led stays(runtime, on_tiny("1GiB")), ends(runtime, on_tiny("1GiB"));
  EXPECT_EQ(ends.does("linear:1048576"), "0");
  EXPECT_TRUE(comes_true([&] { return stays.does("listed") == "0 2"; }));
  ends.running.kill_and_wait();
  EXPECT_TRUE(comes_true([&] { return stays.does("listed") == "0 1"; }));
}

TEST(ForkedChild, SeesByNvmlWhatItsParentSees) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  EXPECT_EQ(tenant.does("nvml-in-child"), "0 1073741824");
}

// Its GPUs are lost, and each wait for one returns that error.
TEST(RemovedNode, EndsAWaitWithAnError) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("1GiB"));
  EXPECT_EQ(tenant.does("spin"), "0");
  std::filesystem::remove_all(runtime.path() + "/run-node");
  EXPECT_EQ(tenant.does("sync"), "46");
  EXPECT_EQ(tenant.does("linear:1048576"), "46");
}

// A reserved request that has not reached the driver must not hide context memory: that room would be given away.
TEST(Residual, IsNotLowerWhileARequestIsInFlight) {
  const Runtime runtime;
  Tenant slow_driver = on_tiny("576MiB");
  slow_driver.environment["HEADGATE_SIM_FAULT"] = "cuMemAlloc_v2:delay_us=1000000:after=1";
  Led slow(runtime, slow_driver), other(runtime, on_tiny("576MiB"));
  for (Led* each : {&slow, &other}) {
    EXPECT_EQ(each->does("info"), "0");
    EXPECT_EQ(each->does("linear:1048576"), "0");
  }
  const Owner owner(runtime);
  EXPECT_TRUE(comes_true([&] { return owner.residual() == 2 * kContext; }));
  const std::string request = bytes("linear", 300 * kMiB);
  slow.running.say(request + "\n");
  EXPECT_TRUE(comes_true([&] { return owner.used() == 302 * kMiB; }));
  std::uint64_t least = ~0ull;
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(600);
       std::chrono::steady_clock::now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    least = std::min(least, owner.residual());
  EXPECT_EQ(least, 2 * kContext);
  EXPECT_EQ(other.does(bytes("linear", 147 * kMiB)), "2");
  EXPECT_EQ(other.does(bytes("linear", 146 * kMiB)), "0");
  EXPECT_EQ(slow.running.next_line(), request + ": 0");
  EXPECT_EXACT(runtime, owner, 448 * kMiB);
  EXPECT_EQ(truth(runtime).used_bytes, 576 * kMiB);
}

// It is unknown what a destroyed pool still holds. While it is charged, a reading may be lower than the charge.
TEST(Residual, IsNotLowerForADestroyedPoolStillCharged) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("576MiB"));
  EXPECT_EQ(tenant.does("pool"), "0");
  EXPECT_EQ(tenant.does(bytes("from", 2 * kGranule)), "0");
  EXPECT_EQ(tenant.does("destroy"), "0");
  EXPECT_EQ(tenant.does("free:0"), "0");
  EXPECT_TRUE(comes_true([&] { return really_held(runtime) == 0; }));
  const Owner owner(runtime);
  EXPECT_EQ(owner.used(), 2 * kGranule) << "until a wait has been seen";
  const std::string node = runtime.path() + "/run-node";
  ASSERT_TRUE(sim::write_faults(node, "nvmlDeviceGetComputeRunningProcesses_v3:delay_us=0"));  // only counted
  // Repeats until then, because a recent reading serves the first query.
  EXPECT_TRUE(comes_true([&] { return tenant.does("info") == "0" && sim::fault_hits(node).value().at(0) > 0; }));
  EXPECT_EQ(owner.used(), 2 * kGranule) << "and the pool still charged";
  EXPECT_EQ(owner.residual(), kContext);
  EXPECT_EQ(tenant.does("sync"), "0");
  EXPECT_EQ(owner.used(), 0u);
  EXPECT_EQ(tenant.does(bytes("linear", 513 * kMiB)), "2");
  EXPECT_EQ(tenant.does(bytes("linear", 512 * kMiB)), "0");
}

// The context is off the card and will return. A query neither changes that nor brings it back.
class FrozenResidual : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Memory, FrozenResidual, testing::Values("linear:1048576", "alloc:1048576"));

TEST_P(FrozenResidual, StaysChargedAfterALook) {
  const Runtime runtime;
  Led tenant(runtime, on_tiny("576MiB"));
  EXPECT_EQ(tenant.does(GetParam()), "0");
  const Owner owner(runtime);
  EXPECT_TRUE(comes_true([&] { return owner.residual() == kContext; }));
  ledger::set_value(*owner.pages.writable_policy, &ledger::PolicyPage::freeze_after_s, 1);
  EXPECT_EQ(tenant.does("linear:1048576"), "0");  // use changed, so it is measured soon
  EXPECT_TRUE(comes_true([&] { return truth(runtime).used_bytes == 0; }));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tenant.does("nvml"), "0");
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // a reading is valid for 50 ms
  }
  EXPECT_EQ(truth(runtime).used_bytes, 0u);
  EXPECT_EQ(owner.residual(), kContext);
}

}  // namespace
