// NVML's compute mode decides which processes may create a context.
#include "sim/driver/test_program.hpp"
#include "sim/profile.hpp"

namespace headgate::sim {
namespace {

constexpr std::uint32_t kDefault = 0, kProhibited = 2, kExclusiveProcess = 3;

class ComputeMode : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ASSERT_TRUE(create_node(directory_, *find_profile("tiny")));
  }
  // Sets the mode that nvmlDeviceSetComputeMode would set.
  void set(std::uint32_t mode) {
    auto node = Node::open_existing(directory_);
    ASSERT_TRUE(node);
    (*node)->state().nvml[0].compute_mode = mode;
  }
  // Runs a program that creates a context and a second one; returns the first error.
  static int contexts_answer() {
    return WEXITSTATUS(run([] {
      const Api cu = load();
      CUcontext one = nullptr, two = nullptr;
      OK(cu.cuInit(0));
      const CUresult first = cu.cuCtxCreate_v2(&one, 0, 0);
      if (first != CUDA_SUCCESS) ::_exit(static_cast<int>(first));
      ::_exit(static_cast<int>(cu.cuDevicePrimaryCtxRetain(&two, 0)));
    }));
  }
};

TEST_F(ComputeMode, AProhibitedDeviceGivesNoContext) {
  set(kProhibited);
  EXPECT_EQ(contexts_answer(), 46);
  set(kDefault);
  EXPECT_EQ(contexts_answer(), 0);
}

TEST_F(ComputeMode, AnExclusiveDeviceBelongsToOneProcess) {
  set(kExclusiveProcess);
  const pid_t first = start([] {
    Program p;
    int mode = 0;
    OK(p.cu.cuDeviceGetAttribute(&mode, static_cast<CUdevice_attribute>(20), 0));
    must(mode == 3, "the device says so");
    ::pause();
  });
  while (truth().processes.empty() || truth().processes.at(0).contexts == 0) ::usleep(1000);
  EXPECT_EQ(contexts_answer(), 46);
  ::kill(first, SIGKILL);
  finish(first);
  EXPECT_EQ(contexts_answer(), 0) << "both of its contexts";
}

}  // namespace
}  // namespace headgate::sim
