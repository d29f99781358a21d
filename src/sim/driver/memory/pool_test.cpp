// Stream-ordered memory of the simulated driver, as a program and the truth page see it.
#include "sim/driver/test_program.hpp"

namespace headgate::sim {
namespace {

constexpr std::uint64_t kMiB = 1 << 20, kGranule = 32 * kMiB, kKeep = ~0ull;
constexpr std::uint64_t kFlag = 7;

class Pools : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ::setenv("HEADGATE_SIM_PROFILE", "tiny", 1);
  }
  void TearDown() override {
    ::unsetenv("HEADGATE_SIM_PROFILE");
    Driver::TearDown();
  }
};

struct Pooled : Program {
  CUmemoryPool pool = nullptr;
  Pooled() { OK(cu.cuDeviceGetDefaultMemPool(&pool, 0)); }

  std::uint64_t get(CUmemPool_attribute which) { return get(pool, which); }
  std::uint64_t get(CUmemoryPool of, CUmemPool_attribute which) {
    std::uint64_t value = 0;
    OK(cu.cuMemPoolGetAttribute(of, which, &value));
    return value;
  }
  std::uint64_t reserved() { return get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
  std::uint64_t used() { return get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }
  void keep(std::uint64_t bytes) { OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes)); }
  CUdeviceptr take(std::size_t bytes, CUstream stream) {
    CUdeviceptr address = 0;
    OK(cu.cuMemAllocAsync(&address, bytes, stream));
    return address;
  }
  CUmemoryPool create(std::size_t most = 0) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {1, 0};
    props.maxSize = most;
    CUmemoryPool made = nullptr;
    OK(cu.cuMemPoolCreate(&made, &props));
    return made;
  }
  std::size_t card_free() {
    std::size_t free = 0, total = 0;
    OK(cu.cuMemGetInfo_v2(&free, &total));
    return free;
  }
};

TEST_F(Pools, APoolGrowsByGranulesThatItsProcessHolds) {
  EXPECT_EQ(run([this] {
              Pooled p;
              const CUstream stream = p.stream();
              const CUdeviceptr a = p.take(kMiB, stream), b = p.take(40 * kMiB, stream);
              must(p.reserved() == 3 * kGranule && p.used() == 41 * kMiB, "reserved or used");
              must(truth().processes.at(0).bytes == 3 * kGranule, "the truth");
              std::vector<unsigned> out(1000), in(1000);
              std::iota(out.begin(), out.end(), 3u);
              OK(p.cu.cuMemcpyHtoDAsync_v2(a, out.data(), 4000, stream));
              OK(p.cu.cuMemcpyDtoDAsync_v2(b, a, 4000, stream));
              OK(p.cu.cuMemcpyDtoH_v2(in.data(), b, 4000));
              OK(p.cu.cuStreamSynchronize(stream));
              OK(p.cu.cuMemcpyDtoH_v2(in.data(), b, 4000));
              must(in == out, "the bytes differ");
              must(p.cu.cuMemcpyDtoH_v2(in.data(), a, kMiB + 1) == CUDA_ERROR_INVALID_VALUE, "a copy past the end");
            }),
            0);
  EXPECT_EQ(truth().used_bytes, 0u);
}

TEST_F(Pools, FreedMemoryIsReusedInStreamOrder) {
  EXPECT_EQ(run([] {
              Pooled p;
              p.keep(kKeep);
              const CUstream one = p.stream(), other = p.stream();
              p.run_flag(p.spin, kFlag, one);
              const CUdeviceptr first = p.take(kGranule, one);
              OK(p.cu.cuMemFreeAsync(first, one));
              const CUdeviceptr again = p.take(kGranule, one);
              must(again == first && p.reserved() == kGranule, "the same stream");
              OK(p.cu.cuMemFreeAsync(again, one));
              const CUdeviceptr elsewhere = p.take(kGranule, other);
              must(elsewhere != first && p.reserved() == 2 * kGranule, "another stream, before the free is past");
              p.run_flag(p.raise, kFlag, other);
              OK(p.cu.cuCtxSynchronize());
              must(p.take(kGranule, other) == first && p.reserved() == 2 * kGranule, "another stream, afterwards");
              const int no = 0;
              OK(p.cu.cuMemPoolSetAttribute(p.pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, const_cast<int*>(&no)));
              p.run_us(10, one);
              OK(p.cu.cuMemFreeAsync(first, one));
              while (p.cu.cuStreamQuery(one) == CUDA_ERROR_NOT_READY) ::sched_yield();
              must(p.take(kGranule, other) != first, "opportunistic reuse is off");
            }),
            0);
}

TEST_F(Pools, ASynchroniseReleasesDownToTheThreshold) {
  EXPECT_EQ(
      run([] {
        Pooled p;
        const CUstream stream = p.stream();
        p.keep(kGranule);
        CUdeviceptr held[3];
        for (CUdeviceptr& each : held) each = p.take(kGranule, stream);
        for (const CUdeviceptr each : held) OK(p.cu.cuMemFreeAsync(each, stream));
        must(p.reserved() == 3 * kGranule && p.used() == 0, "before");
        OK(p.cu.cuStreamSynchronize(stream));
        must(p.reserved() == kGranule, "after");
        p.keep(0);
        OK(p.cu.cuCtxSynchronize());
        must(p.reserved() == 0, "with nothing to keep");
        must(p.get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 3 * kGranule, "the high mark");
        std::uint64_t zero = 0, one = 1;
        OK(p.cu.cuMemPoolSetAttribute(p.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
        must(p.get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 0, "its reset");
        must(
            p.cu.cuMemPoolSetAttribute(p.pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one) == CUDA_ERROR_INVALID_VALUE &&
                p.cu.cuMemPoolSetAttribute(p.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero) == CUDA_ERROR_INVALID_VALUE,
            "what cannot be set");
      }),
      0);
}

TEST_F(Pools, ATrimReleasesOnlyWhatTheHostHasSeenFreed) {
  EXPECT_EQ(run([] {
              Pooled p;
              p.keep(kKeep);
              const CUstream stream = p.stream();
              const CUdeviceptr a = p.take(kGranule, stream), b = p.take(kGranule, stream);
              p.run_us(10, stream);
              OK(p.cu.cuMemFreeAsync(a, stream));
              while (p.cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) ::sched_yield();
              OK(p.cu.cuMemPoolTrimTo(p.pool, 0));
              must(p.reserved() == 2 * kGranule, "not yet seen");
              OK(p.cu.cuStreamSynchronize(stream));
              OK(p.cu.cuMemPoolTrimTo(p.pool, 2 * kGranule));
              must(p.reserved() == 2 * kGranule, "as much as is to be kept");
              OK(p.cu.cuMemPoolTrimTo(p.pool, 0));
              must(p.reserved() == kGranule, "what is in use stays");
              OK(p.cu.cuMemFree_v2(b));
              OK(p.cu.cuMemPoolTrimTo(p.pool, 0));
              must(p.reserved() == 0, "cuMemFree frees pool memory at once");
            }),
            0);
}

TEST_F(Pools, CuMemFreeOfPoolMemoryDoesNotWait) {
  EXPECT_EQ(run([] {
              Pooled p;
              const CUstream stream = p.stream();
              const CUdeviceptr a = p.take(kGranule, stream);
              p.run_flag(p.spin, kFlag, stream);
              OK(p.cu.cuMemFree_v2(a));
              must(p.used() == 0 && p.cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY, "it waited");
              p.run_flag(p.raise, kFlag, p.stream());
              OK(p.cu.cuCtxSynchronize());
            }),
            0);
}

TEST_F(Pools, WrongArgumentsGetTheDriversAnswers) {
  EXPECT_EQ(run([] {
              Pooled p;
              const CUstream stream = p.stream();
              CUdeviceptr address = 0, linear = 0;
              std::uint64_t value = 0;
              const auto is = [](CUresult result, CUresult wanted, const char* what) { must(result == wanted, what); };
              is(p.cu.cuMemAllocAsync(&address, 0, stream), CUDA_ERROR_INVALID_VALUE, "no bytes");
              is(p.cu.cuMemAllocAsync(nullptr, 1, stream), CUDA_ERROR_INVALID_VALUE, "nowhere");
              is(p.cu.cuMemAllocAsync(&address, ~0ull, stream), CUDA_ERROR_OUT_OF_MEMORY, "everything");
              is(p.cu.cuMemAllocAsync(&address, 1ull << 40, stream), CUDA_ERROR_OUT_OF_MEMORY, "too much");
              is(p.cu.cuMemAllocAsync(&address, 1, reinterpret_cast<CUstream>(p.context)), CUDA_ERROR_INVALID_HANDLE,
                 "a context for a stream");
              is(p.cu.cuMemAllocFromPoolAsync(&address, 1, nullptr, stream), CUDA_ERROR_INVALID_VALUE, "no pool");
              is(p.cu.cuMemAllocFromPoolAsync(&address, 1, reinterpret_cast<CUmemoryPool>(p.context), stream),
                 CUDA_ERROR_INVALID_VALUE, "a context for a pool");
              is(p.cu.cuMemFreeAsync(0, stream), CUDA_ERROR_INVALID_VALUE, "free of null");
              is(p.cu.cuMemFreeAsync(4096, stream), CUDA_ERROR_INVALID_VALUE, "free of a stranger");
              OK(p.cu.cuMemAlloc_v2(&linear, 4096));
              is(p.cu.cuMemFreeAsync(linear, stream), CUDA_ERROR_INVALID_VALUE, "free of linear memory");
              address = p.take(4096, stream);
              OK(p.cu.cuMemFreeAsync(address, stream));
              is(p.cu.cuMemFreeAsync(address, stream), CUDA_ERROR_INVALID_VALUE, "a second free");
              is(p.cu.cuMemPoolDestroy(p.pool), CUDA_ERROR_INVALID_VALUE, "the default pool");
              is(p.cu.cuMemPoolGetAttribute(p.pool, static_cast<CUmemPool_attribute>(99), &value),
                 CUDA_ERROR_INVALID_VALUE, "an attribute");
              is(p.cu.cuMemPoolTrimTo(nullptr, 0), CUDA_ERROR_INVALID_VALUE, "a trim of nothing");
              is(p.cu.cuDeviceGetMemPool(&p.pool, 9), CUDA_ERROR_INVALID_DEVICE, "a device");
              CUmemPoolProps props{};
              is(p.cu.cuMemPoolCreate(&p.pool, &props), CUDA_ERROR_INVALID_VALUE, "properties");
              props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
              props.location = {2, 0};
              is(p.cu.cuMemPoolCreate(&p.pool, &props), CUDA_ERROR_NOT_SUPPORTED, "a pool of the host");
            }),
            0);
}

TEST_F(Pools, ADestroyedPoolKeepsNothingAtAnyThreshold) {
  EXPECT_EQ(run([] {
              Pooled p;
              const CUstream stream = p.stream();
              const std::size_t before = p.card_free();
              const CUmemoryPool pool = p.create();
              std::uint64_t keep = kKeep;
              OK(p.cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
              CUdeviceptr address = 0;
              OK(p.cu.cuMemAllocFromPoolAsync(&address, kMiB, pool, stream));
              p.run_us(5000, stream);
              OK(p.cu.cuMemFreeAsync(address, stream));
              OK(p.cu.cuMemPoolDestroy(pool));
              must(before - p.card_free() == kGranule, "the free has not happened yet");
              OK(p.cu.cuStreamSynchronize(stream));
              must(p.card_free() == before, "it is gone");
            }),
            0);
}

TEST_F(Pools, ADestroyedPoolEndsWithItsLastAllocation) {
  EXPECT_EQ(run([this] {
              Pooled p;
              const CUstream stream = p.stream();
              const CUmemoryPool pool = p.create();
              OK(p.cu.cuDeviceSetMemPool(0, pool));
              const CUdeviceptr a = p.take(kMiB, stream);
              CUmemoryPool of = nullptr, now = nullptr;
              OK(p.cu.cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
              must(of == pool, "the pointer's pool");
              OK(p.cu.cuMemPoolDestroy(pool));
              OK(p.cu.cuDeviceGetMemPool(&now, 0));
              must(now == p.pool, "the default pool is current again");
              must(p.cu.cuMemPoolTrimTo(pool, 0) == CUDA_ERROR_INVALID_VALUE, "its handle is void");
              must(truth().processes.at(0).bytes == kGranule, "its memory is there");
              OK(p.cu.cuMemsetD8_v2(a, 1, kMiB));
              OK(p.cu.cuCtxSynchronize());
              OK(p.cu.cuMemFreeAsync(a, stream));
              OK(p.cu.cuStreamSynchronize(stream));
              must(truth().processes.at(0).bytes == 0, "and gone");
            }),
            0);
}

TEST_F(Pools, APoolKeepsItsMaximumSizeAndOutlivesContexts) {
  EXPECT_EQ(run([] {
              Pooled p;
              CUstream stream = p.stream();
              const CUmemoryPool pool = p.create(2 * kGranule);
              CUdeviceptr a = 0, b = 0;
              OK(p.cu.cuMemAllocFromPoolAsync(&a, 2 * kGranule, pool, stream));
              must(p.cu.cuMemAllocFromPoolAsync(&b, 1, pool, stream) == CUDA_ERROR_OUT_OF_MEMORY, "past its size");
              OK(p.cu.cuCtxDestroy_v2(p.context));
              OK(p.cu.cuCtxCreate_v2(&p.context, 0, 0));
              must(p.get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 2 * kGranule, "gone with its context");
              stream = p.stream();
              OK(p.cu.cuMemsetD8_v2(a, 1, 2 * kGranule));
              OK(p.cu.cuCtxSynchronize());
              OK(p.cu.cuMemFreeAsync(a, stream));
              OK(p.cu.cuMemPoolDestroy(pool));
              OK(p.cu.cuStreamSynchronize(stream));
            }),
            0);
}

TEST_F(Pools, AFullCardReclaimsUnusedPoolMemory) {
  EXPECT_EQ(run([] {
              Pooled p;
              p.keep(kKeep);
              const CUstream stream = p.stream();
              const CUdeviceptr a = p.take(10 * kGranule, stream), b = p.take(kGranule, stream);
              OK(p.cu.cuMemFreeAsync(a, stream));
              CUdeviceptr rest = 0;
              const std::size_t room = p.card_free();
              OK(p.cu.cuMemAlloc_v2(&rest, room + 10 * kGranule));
              must(p.reserved() == kGranule && p.card_free() == 0, "cuMemAlloc");
              must(p.cu.cuMemAllocAsync(&rest, 2 * kGranule, stream) == CUDA_ERROR_OUT_OF_MEMORY, "nothing is left");
              OK(p.cu.cuMemFreeAsync(b, stream));
              p.take(kGranule, stream);
            }),
            0);
}

TEST_F(Pools, PoolsHaveALocationAndAccess) {
  Profile two = *find_profile("l40s-x2");
  two.cuda_version = 13000;  // this version has these functions
  ASSERT_TRUE(create_node(directory_, two));
  EXPECT_EQ(run([] {
              Pooled p;
              CUmemLocation here{1, 0}, there{1, 1}, host{2, 0};
              CUmemoryPool pool = nullptr;
              OK(p.cu.cuMemGetDefaultMemPool(&pool, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
              must(pool == p.pool, "the default");
              OK(p.cu.cuMemGetMemPool(&pool, &there, CU_MEM_ALLOCATION_TYPE_PINNED));
              must(pool != p.pool, "the other GPU's");
              must(p.cu.cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, pool) == CUDA_ERROR_INVALID_VALUE,
                   "a pool of the other GPU");
              must(p.cu.cuMemGetMemPool(&pool, &host, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_ERROR_NOT_SUPPORTED,
                   "host");
              CUmemAccess_flags flags{};
              OK(p.cu.cuMemPoolGetAccess(&flags, p.pool, &there));
              must(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, "not reachable from there");
              CUmemAccessDesc open{there, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
              OK(p.cu.cuMemPoolSetAccess(p.pool, &open, 1));
              OK(p.cu.cuMemPoolGetAccess(&flags, p.pool, &there));
              must(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "now it is");
              open = {here, CU_MEM_ACCESS_FLAGS_PROT_NONE};
              must(p.cu.cuMemPoolSetAccess(p.pool, &open, 1) == CUDA_ERROR_INVALID_VALUE, "its own GPU");
            }),
            0);
}

TEST_F(Pools, GraphsHaveASeparatePool) {
  EXPECT_EQ(
      run([] {
        Pooled p;
        std::uint64_t value = 1;
        OK(p.cu.cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &value));
        must(value == 0, "nothing is reserved for graphs");
        value = 0;
        OK(p.cu.cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
        value = 1;
        must(p.cu.cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value) == CUDA_ERROR_INVALID_VALUE,
             "a mark can only be reset");
        OK(p.cu.cuDeviceGraphMemTrim(0));
        must(p.cu.cuDeviceGraphMemTrim(3) == CUDA_ERROR_INVALID_DEVICE, "a device");
        must(p.cu.cuDeviceGetGraphMemAttribute(3, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, nullptr) == CUDA_ERROR_INVALID_VALUE,
             "the value is looked at first");
      }),
      0);
}

TEST_F(Pools, AKilledProcessLeavesNothing) {
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const pid_t child = start([&] {
    Pooled p;
    p.keep(kKeep);
    p.take(100 * kMiB, p.stream());
    must(::write(pipes[1], "x", 1) == 1, "write");
    ::pause();
  });
  char byte = 0;
  ASSERT_EQ(::read(pipes[0], &byte, 1), 1);
  EXPECT_EQ(truth().processes.at(0).bytes, 4 * kGranule);
  ::kill(child, SIGKILL);
  finish(child);
  EXPECT_EQ(truth().used_bytes, 0u);
  ::close(pipes[0]);
  ::close(pipes[1]);
}

}  // namespace
}  // namespace headgate::sim
