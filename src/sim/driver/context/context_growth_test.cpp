// Memory that contexts take without an allocation call, as a program and the truth page see it.
#include "sim/driver/test_program.hpp"

namespace headgate::sim {
namespace {

constexpr std::uint64_t kMiB = 1 << 20, kContext = 64 * kMiB, kThreads = 20 * 2048;  // of the "tiny" card
constexpr char kGrowing[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry small() { .pragma "headgate.sim.us 1", "headgate.sim.code 1024"; ret; }
.visible .entry large() { .pragma "headgate.sim.us 1", "headgate.sim.code 4096"; ret; }
.visible .entry deep() { .local .align 4 .b8 depot[3072]; .pragma "headgate.sim.us 1"; ret; }
.visible .entry abyss() { .local .align 4 .b8 depot[262144]; .pragma "headgate.sim.us 1"; ret; }
)";

class ContextGrowth : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ::setenv("HEADGATE_SIM_PROFILE", "tiny", 1);
  }
  void TearDown() override {
    ::unsetenv("HEADGATE_SIM_PROFILE");
    ::unsetenv("CUDA_MODULE_LOADING");
    Driver::TearDown();
  }
  std::uint64_t grown() { return truth().processes.at(0).context_bytes - kContext; }
};

struct Growing : Program {
  CUmodule growing = nullptr;
  Growing() { OK(cu.cuModuleLoadData(&growing, kGrowing)); }
  CUfunction named(const char* name) {
    CUfunction found = nullptr;
    OK(cu.cuModuleGetFunction(&found, growing, name));
    return found;
  }
  CUresult launch(const char* name) {
    return cu.cuLaunchKernel(named(name), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  }
  bool loaded(const char* name) {
    CUfunctionLoadingState state{};
    OK(cu.cuFuncIsLoaded(&state, named(name)));
    return static_cast<unsigned>(state) == 1;
  }
  unsigned mode() {
    CUmoduleLoadingMode mode{};
    OK(cu.cuModuleGetLoadingMode(&mode));
    return static_cast<unsigned>(mode);
  }
};

TEST_F(ContextGrowth, CodeIsLoadedAtFirstUseAndFreedWithItsModule) {
  EXPECT_EQ(run([this] {
              Growing p;
              must(p.mode() == 2 && grown() == 0 && !p.loaded("small"), "code before its first use");
              OK(p.launch("small"));
              OK(p.launch("small"));
              must(p.loaded("small") && !p.loaded("large") && grown() == kMiB, "one kernel's code");
              OK(p.cu.cuFuncLoad(p.named("large")));
              must(grown() == 5 * kMiB, "two kernels' code");
              OK(p.cu.cuCtxSynchronize());
              OK(p.cu.cuModuleUnload(p.growing));
              must(grown() == 0, "the module's code is still there");
            }),
            0);
  EXPECT_EQ(truth().used_bytes, 0u);
}

TEST_F(ContextGrowth, CodeIsLoadedWithItsModuleIfEagerLoadingIsSet) {
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  EXPECT_EQ(run([this] {
              Growing p;
              must(p.mode() == 1 && p.loaded("large") && grown() == 5 * kMiB, "not all code");
            }),
            0);
}

TEST_F(ContextGrowth, AFileWithoutAnImageIsRefused) {
  EXPECT_EQ(run([] {
              Program p;
              CUmodule module = nullptr;
              must(p.cu.cuModuleLoad(&module, "/") == CUDA_ERROR_INVALID_IMAGE, "a directory");
              must(p.cu.cuModuleLoad(&module, "/none") == CUDA_ERROR_FILE_NOT_FOUND, "no file");
            }),
            0);
}

TEST_F(ContextGrowth, LocalMemoryGrowsForTheFirstKernelThatNeedsIt) {
  EXPECT_EQ(run([this] {
              Growing p;
              OK(p.launch("deep"));
              must(grown() == 2048 * kThreads, "for every thread that the card holds");
              OK(p.launch("deep"));
              OK(p.launch("small"));
              must(grown() == 2048 * kThreads + kMiB, "it stays as large");
              must(p.launch("abyss") == CUDA_ERROR_OUT_OF_MEMORY, "more than the card has");
              must(grown() == 2048 * kThreads + kMiB, "a failure took some");
              OK(p.cu.cuCtxSetLimit(static_cast<CUlimit>(0), 4096));
              must(grown() == 3072 * kThreads + kMiB, "the stack's limit");
            }),
            0);
  EXPECT_EQ(truth().used_bytes, 0u);
}

TEST_F(ContextGrowth, HeapAndPrintfLimitsTakeTheirSize) {
  EXPECT_EQ(run([this] {
              Growing p;
              OK(p.cu.cuCtxSetLimit(static_cast<CUlimit>(2), 108 * kMiB));
              must(grown() == 100 * kMiB, "the heap");
              OK(p.cu.cuCtxSetLimit(static_cast<CUlimit>(1), 11 * kMiB));
              must(grown() == 110 * kMiB, "printf");
              must(p.cu.cuCtxSetLimit(static_cast<CUlimit>(2), 1ull << 40) == CUDA_ERROR_OUT_OF_MEMORY, "too much");
              std::size_t heap = 0;
              OK(p.cu.cuCtxGetLimit(&heap, static_cast<CUlimit>(2)));
              must(heap == 108 * kMiB, "a refused limit");
              OK(p.cu.cuCtxSetLimit(static_cast<CUlimit>(2), 8 * kMiB));
              must(grown() == 10 * kMiB, "a smaller heap");
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
