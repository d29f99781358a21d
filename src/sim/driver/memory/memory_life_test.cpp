// Memory as a card provides it: slabs, managed pages, teardown after death, attributes of addresses.
#include <sys/mman.h>

#include "sim/driver/test_program.hpp"
#include "sim/profile.hpp"

namespace headgate::sim {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class MemoryLife : public Driver {
 protected:
  void make(std::uint64_t slab_bytes, std::uint64_t teardown_ns) {
    Profile profile = *find_profile("tiny");
    profile.slab_bytes = slab_bytes;
    profile.teardown_ns = teardown_ns;
    const auto made = create_node(directory_, profile);
    ASSERT_TRUE(made) << made.error().message;
  }
};

std::size_t free_now(Program& p) {
  std::size_t free = 0, total = 0;
  OK(p.cu.cuMemGetInfo_v2(&free, &total));
  return free;
}

TEST_F(MemoryLife, SmallAllocationsShareASlabThatOneKeeps) {
  make(2 * kMiB, 0);
  EXPECT_EQ(run([this] {
              Program p;
              const std::size_t before = free_now(p);
              std::vector<CUdeviceptr> small(4096);
              for (CUdeviceptr& each : small) OK(p.cu.cuMemAlloc_v2(&each, 500));
              must(before - free_now(p) == 2 * kMiB, message("4096 pieces of 500 bytes take ", before - free_now(p)));
              CUdeviceptr one_more = 0, large = 0;
              OK(p.cu.cuMemAlloc_v2(&one_more, 500));
              must(before - free_now(p) == 4 * kMiB, "one more piece takes a second slab");
              must(truth().processes.at(0).bytes == 4097 * 500, "the truth is exact");
              must(truth().processes.at(0).slack_bytes == 4 * kMiB - 4097 * 500, "and knows the rest");
              OK(p.cu.cuMemAlloc_v2(&large, 3 * kMiB));
              must(before - free_now(p) == 8 * kMiB, "3 MiB take 4");
              OK(p.cu.cuMemFree_v2(large));
              for (const CUdeviceptr each : small) OK(p.cu.cuMemFree_v2(each));
              must(before - free_now(p) == 2 * kMiB, "500 bytes keep 2 MiB");
              OK(p.cu.cuMemFree_v2(one_more));
              must(before == free_now(p), "all is back");
              OK(p.cu.cuMemAlloc_v2(&one_more, 500));
              CUcontext second = nullptr;
              OK(p.cu.cuCtxCreate_v2(&second, 0, 0));
              const std::size_t with_second = free_now(p);
              OK(p.cu.cuMemAlloc_v2(&large, 500));
              must(with_second - free_now(p) == 2 * kMiB, "another context has its own slabs");
            }),
            0);
  EXPECT_EQ(truth().used_bytes, 0u);
}

TEST_F(MemoryLife, MemoryOfAKilledProcessIsFreeAfterItsTeardown) {
  make(0, 300'000'000);
  const pid_t child = start([] {
    Program p;
    CUdeviceptr address = 0;
    OK(p.cu.cuMemAlloc_v2(&address, 100 * kMiB));
    ::pause();
  });
  while (truth().used_bytes < 100 * kMiB) ::usleep(1000);
  const std::uint64_t held = truth().used_bytes;
  ::kill(child, SIGKILL);
  finish(child);
  DeviceTruth dead = truth();
  for (; dead.used_bytes == held && dead.processes.at(0).alive; dead = truth()) ::usleep(1000);
  EXPECT_EQ(dead.processes.at(0).bytes, 0u);
  while (truth().used_bytes != 0) ::usleep(1000);
  auto node = Node::open_existing(directory_);
  ASSERT_TRUE(node);
  EXPECT_GE(clock_ns() - truth().processes.at(0).death_ns, 300'000'000u);
}

TEST_F(MemoryLife, ManagedPagesFollowTouchPrefetchAndAdvice) {
  make(0, 0);
  EXPECT_EQ(
      run([this] {
        Program p;
        const auto on_gpu = [this] { return truth().processes.at(0).bytes; };
        CUdeviceptr managed = 0;
        must(p.cu.cuMemAllocManaged(&managed, 5 * kMiB, 3) == CUDA_ERROR_INVALID_VALUE, "both attachments");
        OK(p.cu.cuMemAllocManaged(&managed, 5 * kMiB, 1));
        must(on_gpu() == 0, "it was not touched yet");
        OK(p.cu.cuMemsetD8_v2(managed + 2 * kMiB, 1, 1));
        must(on_gpu() == 2 * kMiB, message("one block: ", on_gpu()));
        p.run_us(1, nullptr);
        OK(p.cu.cuCtxSynchronize());
        must(on_gpu() == 5 * kMiB, "a kernel touches all");
        OK(p.cu.cuMemPrefetchAsync(managed, 4 * kMiB, -1, nullptr));
        OK(p.cu.cuCtxSynchronize());
        must(on_gpu() == kMiB, message("two blocks went home: ", on_gpu()));
        OK(p.cu.cuMemPrefetchAsync(managed, 5 * kMiB, 0, nullptr));
        OK(p.cu.cuCtxSynchronize());
        must(on_gpu() == 5 * kMiB, "and came back");
        OK(p.cu.cuMemAdvise(managed, 2 * kMiB, static_cast<CUmem_advise>(3), -1));
        p.run_us(1, nullptr);
        must(on_gpu() == 3 * kMiB, "what prefers the processor stays there");
        must(*reinterpret_cast<unsigned char*>(managed + 2 * kMiB) == 1, "the processor reads it");
        void* library = ::dlopen(HEADGATE_SIM_CUDA, RTLD_NOW);
        const auto attribute = reinterpret_cast<CUresult (*)(void*, std::size_t, unsigned, CUdeviceptr, std::size_t)>(
            ::dlsym(library, "cuMemRangeGetAttribute"));
        int said = 7, list[2] = {7, 7};
        OK(attribute(&said, 4, 2, managed, kMiB));
        must(said == -1, "prefers the processor");
        OK(attribute(&said, 4, 2, managed, 5 * kMiB));
        must(said == -2, "not all of it");
        OK(attribute(&said, 4, 4, managed, 5 * kMiB));
        must(said == 0, "all was prefetched to GPU 0 last");
        OK(p.cu.cuMemAdvise(managed, 5 * kMiB, static_cast<CUmem_advise>(5), 0));
        OK(attribute(list, 8, 3, managed, 5 * kMiB));
        must(list[0] == 0 && list[1] == -2, "GPU 0 has it mapped");
        must(attribute(&said, 8, 2, managed, 1) == CUDA_ERROR_INVALID_VALUE, "room of another size");
        must(attribute(&said, 4, 9, managed, 1) == CUDA_ERROR_INVALID_VALUE, "an unknown attribute");
        must(p.cu.cuMemPrefetchAsync(managed, 6 * kMiB, 0, nullptr) == CUDA_ERROR_INVALID_VALUE, "past its end");
        must(p.cu.cuMemPrefetchAsync(managed, 1, 5, nullptr) == CUDA_ERROR_INVALID_DEVICE, "GPU 5");
        CUdeviceptr plain = 0;
        OK(p.cu.cuMemAlloc_v2(&plain, 1));
        must(p.cu.cuMemAdvise(plain, 1, static_cast<CUmem_advise>(1), 0) == CUDA_ERROR_INVALID_VALUE, "not managed");
        OK(p.cu.cuMemFree_v2(managed));
        must(on_gpu() == 1, "all is back");
        must(p.cu.cuMemAllocManaged(&managed, 1ull << 50, 1) == CUDA_ERROR_OUT_OF_MEMORY, "a petabyte");
        OK(p.cu.cuMemAllocManaged(&managed, 3000 * kMiB, 1));  // more than the card: the excess stays in host memory
        p.run_us(1, nullptr);
        must(free_now(p) < 2 * kMiB, "the card is full");
      }),
      0);
  EXPECT_EQ(truth().used_bytes, 0u);
}

TEST_F(MemoryLife, StrangeSizesAndAddressesGetTheDriversAnswer) {
  make(2 * kMiB, 0);
  EXPECT_EQ(
      run([] {
        Program p;
        CUdeviceptr at = 0, base = 0;
        std::size_t bytes = 0, pitch = 0;
        must(p.cu.cuMemAlloc_v2(&at, 0) == CUDA_ERROR_INVALID_VALUE, "no bytes");
        must(p.cu.cuMemAlloc_v2(nullptr, 1) == CUDA_ERROR_INVALID_VALUE, "no place for the answer");
        must(p.cu.cuMemAlloc_v2(&at, ~std::size_t{0}) == CUDA_ERROR_OUT_OF_MEMORY, "all of 64 bits");
        must(p.cu.cuMemAllocPitch_v2(&at, &pitch, ~std::size_t{0}, 2, 4) == CUDA_ERROR_OUT_OF_MEMORY, "a wide row");
        must(p.cu.cuMemAllocPitch_v2(&at, &pitch, 100, 2, 5) == CUDA_ERROR_INVALID_VALUE, "elements of 5 bytes");
        OK(p.cu.cuMemAllocPitch_v2(&at, &pitch, 300, 10, 4));
        must(pitch == 512, "the pitch");
        OK(p.cu.cuMemGetAddressRange_v2(&base, &bytes, at + 700));
        must(base == at && bytes == 5120, "the range");
        must(p.cu.cuMemGetAddressRange_v2(&base, &bytes, 64) == CUDA_ERROR_NOT_FOUND,
             "an address without an allocation");
        must(p.cu.cuMemFree_v2(at + 512) == CUDA_ERROR_INVALID_VALUE, "the middle of it");
        OK(p.cu.cuMemFree_v2(at));
        must(p.cu.cuMemFree_v2(at) == CUDA_ERROR_INVALID_VALUE, "a second free");
        OK(p.cu.cuMemFree_v2(0));
        void* pinned = nullptr;
        must(p.cu.cuMemHostAlloc(&pinned, ~std::size_t{0}, 0) == CUDA_ERROR_OUT_OF_MEMORY, "all host memory");
        must(p.cu.cuMemHostAlloc(&pinned, 64, 8) == CUDA_ERROR_INVALID_VALUE, "an unknown flag");
        char* mine =
            static_cast<char*>(::mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        OK(p.cu.cuMemHostRegister_v2(mine + 4096, 4096, 1));
        must(p.cu.cuMemHostRegister_v2(mine, 8192, 1) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "overlaps");
        unsigned flags = 9;
        OK(p.cu.cuMemHostGetFlags(&flags, mine + 5000));
        must(flags == 1, "its flags");
        OK(p.cu.cuMemHostUnregister(mine + 4096));
        must(p.cu.cuMemHostUnregister(mine + 4096) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "a second time");
        ::munmap(mine, 16384);
        must(p.cu.cuMemHostRegister_v2(mine, 4096, 1) == CUDA_ERROR_INVALID_VALUE, "nothing is mapped there");
      }),
      0);
  EXPECT_EQ(truth().used_bytes, 0u);
}

}  // namespace
}  // namespace headgate::sim
