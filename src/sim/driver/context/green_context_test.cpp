// Green contexts: kernels on some of the SMs only, and events of whole contexts.
#include "sim/driver/context/resource_abi.hpp"
#include "sim/driver/test_program.hpp"
#include "sim/profile.hpp"

namespace headgate::sim {
namespace {

using driver::DevResource, driver::kResourceSm, driver::kSplitIgnoreCoscheduling;

void is(CUresult result, unsigned wanted, const std::string& what) {
  must(static_cast<unsigned>(result) == wanted, message(what, " answered ", static_cast<unsigned>(result)));
}

// The calls that our API table declares without parameters.
struct Green {
  Program p;
  CUcontext primary = nullptr;
  template <typename... Parameters>
  CUresult call(const char* name, Parameters... parameters) {
    static void* const library = ::dlopen(HEADGATE_SIM_CUDA, RTLD_NOW);
    return reinterpret_cast<CUresult (*)(Parameters...)>(::dlsym(library, name))(parameters...);
  }
  Green() {
    OK(p.cu.cuDevicePrimaryCtxRetain(&primary, 0));
    OK(p.cu.cuCtxSetCurrent(primary));
    OK(p.cu.cuModuleLoadData(&p.module, kPtx));
    OK(p.cu.cuModuleGetFunction(&p.us, p.module, "us"));
    OK(p.cu.cuModuleGetFunction(&p.spin, p.module, "spin"));
    OK(p.cu.cuModuleGetFunction(&p.raise, p.module, "raise"));
  }
  DevResource sms() {
    DevResource all{};
    OK(call("cuDeviceGetDevResource", CUdevice{0}, &all, unsigned{kResourceSm}));
    return all;
  }
  CUgreenCtx make(const DevResource& resource) {
    CUdevResourceDesc description = nullptr;
    CUgreenCtx green = nullptr;
    OK(call("cuDevResourceGenerateDesc", &description, &resource, 1u));
    OK(p.cu.cuGreenCtxCreate(&green, description, 0, 1));
    return green;
  }
  CUstream stream(CUgreenCtx green) {
    CUstream made = nullptr;
    OK(call("cuGreenCtxStreamCreate", &made, green, 1u, 0));
    return made;
  }
};

class GreenContexts : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ASSERT_TRUE(create_node(directory_, *find_profile("h200-cuda13")));  // 132 SMs, groups of 8
  }
};

TEST_F(GreenContexts, SmsAreSplitInGroupsByArchitecture) {
  EXPECT_EQ(run([] {
              Green g;
              DevResource all = g.sms(), parts[20], rest{};
              must(all.sm.count == 132 && all.sm.least == 8 && all.sm.alignment == 8, "the whole device");
              unsigned groups = 0;
              const auto split = [&](DevResource* result, unsigned flags, unsigned least) {
                return g.call("cuDevSmResourceSplitByCount", result, &groups, static_cast<const DevResource*>(&all),
                              &rest, flags, least);
              };
              OK(split(nullptr, 0, 9));
              must(groups == 8, message("groups of 16: ", groups));
              groups = 20;
              OK(split(parts, 0, 0));
              must(groups == 16 && parts[15].sm.count == 8 && rest.sm.count == 4, "16 of 8, and 4");
              groups = 2;
              OK(split(parts, 0, 60));
              must(groups == 2 && parts[1].sm.count == 64 && rest.sm.count == 4, "2 of 64, and 4");
              groups = 2;
              OK(split(parts, kSplitIgnoreCoscheduling, 66));
              must(groups == 2 && rest.type == driver::kResourceInvalid, "one by one nothing is left");
              is(split(parts, 0, 133), 1, "more than there are");
              is(split(parts, 4, 8), 1, "an unknown flag");
              all = parts[0];
              is(split(parts, 0, 8), 915, "a part of a part");
              all.type = driver::kResourceInvalid;
              is(split(parts, 0, 8), 914, "no resource");
              is(g.call("cuDeviceGetDevResource", CUdevice{7}, &all, 1u), 101, "no device");
              is(g.call("cuDeviceGetDevResource", CUdevice{0}, &all, 2u), 914, "no SMs");
              is(g.call("cuDeviceGetDevResource", CUdevice{0}, static_cast<DevResource*>(nullptr), 1u), 1, "nowhere");
            }),
            0);
}

TEST_F(GreenContexts, KernelsRunOnlyOnTheSmsOfTheirGroup) {
  EXPECT_EQ(run([this] {
              Green g;
              const DevResource all = g.sms();
              DevResource parts[2], rest{};
              unsigned groups = 2;
              OK(g.call("cuDevSmResourceSplitByCount", &parts[0], &groups, &all, &rest, 0u, 32u));
              const CUgreenCtx small = g.make(parts[0]), other = g.make(parts[1]);
              CUstream one = g.stream(small), two = g.stream(small), beside = g.stream(other);
              // Each kernel wants the whole device. One that spins keeps its group from another, and no other group.
              std::uint64_t flag = 7;
              void* until[] = {&flag};
              OK(g.p.cu.cuLaunchKernel(g.p.spin, 1000, 1, 1, 32, 1, 1, 0, one, until, nullptr));
              g.p.run_us(10, two, 1000);
              g.p.run_us(20'000, beside, 1000);
              OK(g.p.cu.cuStreamSynchronize(beside));
              must(g.p.cu.cuStreamQuery(two) == CUDA_ERROR_NOT_READY, "a kernel of the same group waits");
              g.p.run_flag(g.p.raise, flag, beside);
              OK(g.p.cu.cuCtxSynchronize());
              const double sm_before = truth().processes.at(0).sm_ns;
              g.p.run_us(10'000, one, 1000);
              OK(g.p.cu.cuStreamSynchronize(one));
              const double sm_ms = (truth().processes.at(0).sm_ns - sm_before) / 1e6;
              must(sm_ms > 2.42 && sm_ms < 2.43, message("32 of 132 SMs for 10 ms are ", sm_ms));
              int blocks = 1000;
              unsigned us = 10;
              void* parameters[] = {&us};
              is(g.p.cu.cuLaunchCooperativeKernel(g.p.us, static_cast<unsigned>(blocks * 2), 1, 1, 32, 1, 1, 0, one,
                                                  parameters),
                 720, "more blocks together than the group holds");
              OK(g.p.cu.cuLaunchCooperativeKernel(g.p.us, static_cast<unsigned>(blocks * 2), 1, 1, 32, 1, 1, 0,
                                                  g.p.stream(), parameters));
              OK(g.p.cu.cuCtxSynchronize());
            }),
            0);
}

TEST_F(GreenContexts, AGreenContextDiffersOnlyInItsSms) {
  EXPECT_EQ(run([this] {
              Green g;
              const DevResource all = g.sms();
              const CUgreenCtx green = g.make(all);
              CUcontext view = nullptr, now = nullptr;
              CUgreenCtx told = nullptr;
              CUdeviceptr memory = 0;
              OK(g.p.cu.cuCtxFromGreenCtx(&view, green));
              must(view != g.primary, "another handle");
              OK(g.p.cu.cuCtxSetCurrent(view));
              OK(g.p.cu.cuCtxGetCurrent(&now));
              must(now == view, "which is current");
              OK(g.p.cu.cuMemAlloc_v2(&memory, 1 << 20));
              g.p.run_us(10, nullptr);
              OK(g.p.cu.cuCtxSynchronize());
              CUstream mine = g.p.stream();
              OK(g.call("cuStreamGetGreenCtx", mine, &told));
              must(told == green, "a stream made in it is its own");
              OK(g.p.cu.cuStreamGetCtx(mine, &now));
              must(now == view, "and says so");
              OK(g.p.cu.cuStreamGetCtx_v2(mine, &now, &told));
              must(now == g.primary && told == green, "in both ways");
              unsigned long long id = 0, own = 0;
              OK(g.call("cuGreenCtxGetId", green, &id));
              OK(g.call("cuGreenCtxGetId", static_cast<CUgreenCtx>(nullptr), &own));
              must(id != 0 && id == own, "its number");
              is(g.p.cu.cuLaunchKernel(g.p.us, 1, 1, 1, 1, 1, 1, 0, reinterpret_cast<CUstream>(2), nullptr, nullptr),
                 400, "a green context has no stream per thread");
              is(g.p.cu.cuCtxDestroy_v2(view), 201, "it is not destroyed as a context");
              OK(g.p.cu.cuCtxSetCurrent(g.primary));
              OK(g.p.cu.cuGreenCtxDestroy(green));
              is(g.p.cu.cuGreenCtxDestroy(green), 201, "twice");
              is(g.p.cu.cuStreamSynchronize(mine), 709, "its streams");
              is(g.p.cu.cuStreamDestroy_v2(mine), 709, "even to end them");
              is(g.p.cu.cuCtxSetCurrent(view), 201, "its context");
              OK(g.p.cu.cuMemFree_v2(memory));
              const CUgreenCtx last = g.make(all);
              OK(g.p.cu.cuDevicePrimaryCtxRelease_v2(0));
              OK(g.p.cu.cuCtxFromGreenCtx(&view, last));
              must(truth().processes.at(0).contexts == 2, "it keeps the primary context");
              OK(g.p.cu.cuGreenCtxDestroy(last));
              must(truth().processes.at(0).contexts == 1, "as long as it lives");
            }),
            0);
}

TEST_F(GreenContexts, AContextEventFollowsAllItsStreams) {
  EXPECT_EQ(run([] {
              Green g;
              const CUgreenCtx green = g.make(g.sms());
              CUstream in = g.stream(green), out = g.p.stream();
              CUevent all = nullptr, some = nullptr;
              OK(g.p.cu.cuEventCreate(&all, 0));
              OK(g.p.cu.cuEventCreate(&some, 0));
              g.p.run_us(10'000, in);
              g.p.run_flag(g.p.spin, 7, out);
              OK(g.p.cu.cuGreenCtxRecordEvent(green, some));
              OK(g.p.cu.cuCtxRecordEvent(g.primary, all));
              OK(g.p.cu.cuEventSynchronize(some));
              is(g.p.cu.cuStreamQuery(out), 600, "the green context's event waits for its streams alone");
              is(g.p.cu.cuEventQuery(all), 600, "the context's for all");
              g.p.run_flag(g.p.raise, 7, in);
              OK(g.p.cu.cuEventSynchronize(all));
              OK(g.p.cu.cuStreamQuery(out));
              g.p.run_us(30'000, out);
              OK(g.p.cu.cuCtxRecordEvent(nullptr, all));
              OK(g.p.cu.cuGreenCtxWaitEvent(green, all));
              g.p.run_us(1, in);
              OK(g.p.cu.cuStreamSynchronize(in));
              OK(g.p.cu.cuStreamQuery(out));
              OK(g.p.cu.cuCtxWaitEvent(g.primary, all));
              OK(g.p.cu.cuStreamBeginCapture_v2(out, CU_STREAM_CAPTURE_MODE_RELAXED));
              is(g.p.cu.cuCtxRecordEvent(g.primary, all), 900, "while a stream captures");
              is(g.p.cu.cuStreamEndCapture(out, nullptr), 1, "no graph");
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
