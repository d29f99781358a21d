// A tenant that uses stream-ordered memory. It executes its arguments in order and prints each with the driver's
// result. "-" stands for arguments from standard input, one per line.
//
// alloc:BYTES  from:BYTES (the made pool)  linear:BYTES   memory number 0, 1, 2, ...
// free:N  now:N (cuMemFree)  stream:N (allocate and free there; 0 is the default stream)
// keep:BYTES (release threshold of the current pool)  trim:BYTES  sync  ctxsync  query  spin  raise
// pool (makes one)  use (makes it current)  destroy  reset (the primary context)  device:N (another GPU)
// reserved  used (of the current pool)  info  nvml (both query memory)  wrong (every kind of bad argument)
// storm:ROUNDS  whole:ROUNDS  steps:ROUNDS threads:ROUNDS
// graph:BYTES (an executable graph that allocates and frees that much: number 0, 1, 2, ...)  many:COUNT (1 MiB each)
// keeping:BYTES (does not free)  repeating:BYTES (frees at the next launch)  captured:BYTES  moved:BYTES (in a child)
// uploading:BYTES (instantiated with an upload)
// deep (a kernel with 120 MiB of local memory on the tiny card)  heap:BYTES (the heap's limit)
// stack:BYTES  printf:BYTES (the same)  module:BYTES (one with a static array of that size)  unload
// library:BYTES (the same, and the address of its array)  other-library:BYTES (loaded without a context, used in one)
//  -library  library-there (its address in the last made context)  modules:COUNT (with arrays of 512 KiB)
//  code:BYTES (a module with that much code and a small array)
//  shown-code:BYTES (the same with a text of 2 MiB, which the code takes at least)
// managed:BYTES  physical:BYTES (cuMemCreate)  -physical
// context  lone-context:N (on GPU N while none is current)  -context (the last made)  detach (the same)
// -context-elsewhere (the first made, in another thread)  primary:N  -primary:N (retained and released, not made current)
// contexts:COUNT  -contexts:COUNT (lone ones on this GPU, and the last made)
// -primary-elsewhere:N (begins in another thread)  race-primary:ROUNDS (two threads release GPU 1's at the same time)
// primary-twice:N (retained by two threads at the same time)
// left (cuMemGetInfo)  look:TIMES (the same)  end-nvml
// listed (NVML's processes)  nvml-in-child (its total after a fork)
// launch:N  upload:N  end:N  drop:N (frees what N keeps)  gtrim  greserved  gused  gstorm:ROUNDS
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "limiter_graph_memory.hpp"
#include "limiter_images.hpp"
#include "limiter_primary.hpp"
#include "support/driver_call.hpp"

using namespace headgate::abi;
using namespace headgate::e2e;

namespace {

constexpr char kPtx[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry us(.param .u32 us_0) { .pragma "headgate.sim.us param0"; ret; }
.visible .entry spin(.param .u64 spin_0) { .pragma "headgate.sim.wait param0"; ret; }
.visible .entry deep(.param .u64 deep_0) { .local .align 4 .b8 depot[4096]; .pragma "headgate.sim.us 1"; ret; }
.visible .entry raise(.param .u64 raise_0) { .pragma "headgate.sim.set param0"; ret; }
)";

struct Tenant {
  headgate::e2e::GraphMemory graphs;
  CUmodule module = nullptr;
  CUdevice device = 0;
  CUstream stream = nullptr;
  CUmemoryPool made = nullptr;
  std::vector<CUdeviceptr> memory;
  std::vector<CUstream> streams{nullptr};
  unsigned seed = static_cast<unsigned>(::getpid());

  CUresult open(CUdevice on) {
    CUcontext context = nullptr;
    device = on;
    CUresult result = CALL(cuDevicePrimaryCtxRetain)(&context, on);
    if (result == CUDA_SUCCESS) result = CALL(cuCtxSetCurrent)(context);
    if (result == CUDA_SUCCESS) result = CALL(cuModuleLoadData)(&module, kPtx);
    if (result == CUDA_SUCCESS) result = CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
    streams.push_back(stream);
    return result;
  }

  CUmemoryPool current() {
    CUmemoryPool pool = nullptr;
    CALL(cuDeviceGetMemPool)(&pool, device);
    return pool;
  }

  CUresult launch_kernel(const char* kernel, std::uint64_t value) {
    CUfunction function = nullptr;
    if (const CUresult result = CALL(cuModuleGetFunction)(&function, module, kernel); result != CUDA_SUCCESS)
      return result;
    void* parameters[] = {&value};
    const CUstream where = std::strcmp(kernel, "raise") == 0 ? streams.front() : stream;
    return CALL(cuLaunchKernel)(function, 1, 1, 1, 32, 1, 1, 0, where, parameters, nullptr);
  }

  CUmodule statics = nullptr;
  CUlibrary library = nullptr;
  std::vector<CUcontext> others;

  CUresult load_packed(std::uint64_t bytes) {
    return CALL(cuModuleLoadFatBinary)(&statics, packed_with(bytes).c_str());
  }
  CUresult load_statics(std::uint64_t bytes) { return CALL(cuModuleLoadData)(&statics, image_with(bytes).c_str()); }

  CUresult load_library(std::uint64_t bytes, bool without_context) {
    CUcontext context = nullptr;
    CUdeviceptr grid = 0;
    if (without_context) CALL(cuCtxPopCurrent_v2)(&context);
    CUresult result =
        CALL(cuLibraryLoadData)(&library, image_with(bytes).c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (without_context) CALL(cuCtxPushCurrent_v2)(context);
    if (result == CUDA_SUCCESS) result = CALL(cuLibraryGetGlobal)(&grid, nullptr, library, "grid");
    return result;
  }

  CUresult use_library_in_last_context() {
    CUdeviceptr grid = 0;
    CUcontext popped = nullptr;
    CALL(cuCtxPushCurrent_v2)(others.back());
    const CUresult result = CALL(cuLibraryGetGlobal)(&grid, nullptr, library, "grid");
    CALL(cuCtxPopCurrent_v2)(&popped);
    return result;
  }

  CUresult load_code(std::uint64_t bytes, std::uint64_t shown) {
    return CALL(cuModuleLoadData)(&statics, image_of_code(bytes, shown).c_str());
  }

  // Loads modules until one is refused; tells how many were loaded.
  CUresult load_many(std::uint64_t count, std::string& told) {
    CUresult result = CUDA_SUCCESS;
    std::uint64_t loaded = 0;
    for (; loaded < count && result == CUDA_SUCCESS; loaded += result == CUDA_SUCCESS) result = load_statics(512 << 10);
    told = std::to_string(loaded);
    return result;
  }

  CUmemGenericAllocationHandle handle = 0;
  CUresult create_physical(std::uint64_t bytes) {
    // cuda.h: CUmemAllocationProp begins with type, handle types, location type and id.
    const std::uint32_t properties[16] = {1, 0, 1, static_cast<std::uint32_t>(device)};
    return CALL(cuMemCreate)(&handle, bytes, reinterpret_cast<const CUmemAllocationProp*>(properties), 0);
  }

  CUresult managed(std::uint64_t bytes) {
    CUdeviceptr address = 0;
    const CUresult result = CALL(cuMemAllocManaged)(&address, bytes, 1);
    if (result == CUDA_SUCCESS) memory.push_back(address);
    return result;
  }

  CUresult another_context(CUdevice on, bool alone) {
    CUcontext before = nullptr, other = nullptr;
    CALL(cuCtxGetCurrent)(&before);
    if (alone) CALL(cuCtxSetCurrent)(nullptr);
    errno = EXDEV;
    const CUresult result = CALL(cuCtxCreate_v2)(&other, 0, on);
    if (errno != EXDEV) return CUDA_ERROR_UNKNOWN;  // the program's errno is not ours to change
    CALL(cuCtxSetCurrent)(before);
    if (result == CUDA_SUCCESS) others.push_back(other);
    return result;
  }

  CUresult destroy_last_context(bool by_detaching = false) {
    const CUcontext last = others.back();
    others.pop_back();
    return by_detaching ? CALL(cuCtxDetach)(last) : CALL(cuCtxDestroy_v2)(last);
  }
  CUresult many_contexts(std::uint64_t count, bool create) {
    CUresult result = CUDA_SUCCESS;
    for (std::uint64_t i = 0; i < count && result == CUDA_SUCCESS; ++i)
      result = create ? another_context(device, true) : destroy_last_context();
    return result;
  }
  CUresult destroy_first_context_elsewhere() {
    CUresult result = CUDA_SUCCESS;
    std::jthread([&] { result = CALL(cuCtxDestroy_v2)(others.front()); }).join();
    others.erase(others.begin());
    return result;
  }

  std::jthread elsewhere;
  CUresult release_primary_elsewhere(CUdevice on) {
    elsewhere = std::jthread([on] { CALL(cuDevicePrimaryCtxRelease_v2)(on); });
    return CUDA_SUCCESS;
  }

  // Tells which calls succeed in a child of fork(), which has no driver: 1 an allocation, 2 a free, 4 a trim of the
  // parent's pool. 0: none.
  CUresult forked(std::uint64_t bytes) {
    const pid_t child = ::fork();
    if (child == 0) {
      CUdeviceptr more = 0;
      const bool allocates = CALL(cuMemAllocAsync)(&more, bytes, stream) == CUDA_SUCCESS;
      const bool frees = !memory.empty() && CALL(cuMemFreeAsync)(memory.front(), stream) == CUDA_SUCCESS;
      const bool trims = CALL(cuMemPoolTrimTo)(current(), 0) == CUDA_SUCCESS;
      ::_exit((allocates ? 1 : 0) + (frees ? 2 : 0) + (trims ? 4 : 0));
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? static_cast<CUresult>(WEXITSTATUS(status))
                                                                      : CUDA_ERROR_UNKNOWN;
  }

  std::uint64_t random(std::uint64_t below) { return static_cast<std::uint64_t>(rand_r(&seed)) % below; }

  // Mixed sizes and kinds, many streams, frees in other streams: whatever the share refuses, nothing may be lost.
  CUresult storm(std::uint64_t rounds) {
    std::uint64_t refused = 0, done = 0;
    while (streams.size() < 5) {
      CUstream more = nullptr;
      if (CALL(cuStreamCreate)(&more, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return CUDA_ERROR_UNKNOWN;
      streams.push_back(more);
    }
    struct Held {
      CUdeviceptr address;
      bool linear;
    };
    std::vector<Held> held;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const CUstream where = streams[random(streams.size())];
      const std::uint64_t what = random(16);
      if (what < 8) {
        Held one{0, what == 0};
        const std::uint64_t bytes = 1 + random(what < 5 ? 1 << 20 : 80 << 20);
        const CUresult result =
            one.linear ? CALL(cuMemAlloc_v2)(&one.address, bytes) : CALL(cuMemAllocAsync)(&one.address, bytes, where);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) ++refused;
        else if (result != CUDA_SUCCESS) return result;
        else held.push_back(one), ++done;
      } else if (what < 14 && !held.empty()) {
        const std::size_t which = random(held.size());
        const Held one = held[which];
        held[which] = held.back();
        held.pop_back();
        const CUresult result =
            one.linear || what == 13 ? CALL(cuMemFree_v2)(one.address) : CALL(cuMemFreeAsync)(one.address, where);
        if (result != CUDA_SUCCESS) return result;
      } else if (what == 14) {
        CALL(cuStreamSynchronize)(where);
      } else {
        CALL(cuMemPoolTrimTo)(current(), random(100 << 20));
      }
    }
    for (const Held& one : held) {
      if (CALL(cuMemFree_v2)(one.address) != CUDA_SUCCESS) return CUDA_ERROR_UNKNOWN;
    }
    std::printf("done %lu refused %lu\n", done, refused);
    return CALL(cuCtxSynchronize)();
  }

  // Whole granules, and each free is seen by the host: it is always known if a pool must grow.
  CUresult whole(std::uint64_t rounds) {
    std::vector<CUdeviceptr> held;
    std::uint64_t refused = 0, done = 0;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      if (random(2) == 0) {
        CUdeviceptr address = 0;
        const CUresult result = CALL(cuMemAllocAsync)(&address, (1 + random(3)) << 25, stream);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) ++refused;
        else if (result != CUDA_SUCCESS) return result;
        else held.push_back(address), ++done;
      } else if (!held.empty()) {
        if (const CUresult result = CALL(cuMemFreeAsync)(held.back(), stream); result != CUDA_SUCCESS) return result;
        held.pop_back();
        CALL(cuStreamSynchronize)(stream);
      }
    }
    for (const CUdeviceptr address : held) CALL(cuMemFreeAsync)(address, stream);
    std::printf("done %lu refused %lu\n", done, refused);
    return CALL(cuStreamSynchronize)(stream);
  }

  // Eight threads on one pool, each in a separate stream, growing it while others shrink it.
  CUresult threads(std::uint64_t rounds) {
    CUcontext context = nullptr;
    if (const CUresult result = CALL(cuCtxGetCurrent)(&context); result != CUDA_SUCCESS) return result;
    std::atomic<unsigned> wrong{0};
    std::vector<std::jthread> all;
    for (unsigned t = 0; t < 8; ++t) {
      all.emplace_back([context, rounds, t, &wrong] {
        CUstream mine = nullptr;
        CALL(cuCtxSetCurrent)(context);
        CALL(cuStreamCreate)(&mine, CU_STREAM_NON_BLOCKING);
        unsigned random = t + 1;
        for (std::uint64_t i = 0; i < rounds; ++i) {
          CUdeviceptr one = 0, two = 0;
          const std::size_t bytes = 1 + static_cast<std::size_t>(rand_r(&random)) % (40 << 20);
          if (CALL(cuMemAllocAsync)(&one, bytes, mine) != CUDA_SUCCESS) wrong |= 1;
          if (CALL(cuMemAllocAsync)(&two, 4096, mine) != CUDA_SUCCESS) wrong |= 1;
          if (CALL(cuMemFreeAsync)(one, mine) != CUDA_SUCCESS) wrong |= 2;
          if (i % 3 == t % 3 && CALL(cuStreamSynchronize)(mine) != CUDA_SUCCESS) wrong |= 4;
          if (CALL(cuMemFreeAsync)(two, mine) != CUDA_SUCCESS) wrong |= 2;
        }
      });
    }
    all.clear();
    return wrong == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  }

  // Like a framework's allocator on this backend: nothing is released, several streams, the same sizes in each step.
  CUresult steps(std::uint64_t rounds) {
    std::uint64_t all = ~0ull;
    CALL(cuMemPoolSetAttribute)(current(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
    while (streams.size() < 4) {
      CUstream more = nullptr;
      if (CALL(cuStreamCreate)(&more, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return CUDA_ERROR_UNKNOWN;
      streams.push_back(more);
    }
    for (std::uint64_t round = 0; round < rounds; ++round) {
      std::vector<std::pair<CUdeviceptr, CUstream>> live;
      for (std::uint64_t i = 0; i < 24; ++i) {
        CUdeviceptr address = 0;
        const CUstream where = streams[1 + i % 3];
        const std::uint64_t bytes = (i % 5 == 0 ? 9ull << 20 : 3000 * (i + 1));
        if (const CUresult result = CALL(cuMemAllocAsync)(&address, bytes, where); result != CUDA_SUCCESS)
          return result;
        live.emplace_back(address, where);
        if (i % 3 == 2) {
          if (const CUresult result = CALL(cuMemFreeAsync)(live.back().first, live.back().second);
              result != CUDA_SUCCESS)
            return result;
          live.pop_back();
        }
      }
      for (const auto& [address, where] : live) CALL(cuMemFreeAsync)(address, where);
      if (round % 4 == 0) CALL(cuStreamSynchronize)(streams[1]);
    }
    return CALL(cuCtxSynchronize)();
  }

  CUresult take(CUmemoryPool from, std::uint64_t bytes) {
    CUdeviceptr address = 0;
    const CUresult result = from == nullptr ? CALL(cuMemAllocAsync)(&address, bytes, stream)
                                            : CALL(cuMemAllocFromPoolAsync)(&address, bytes, from, stream);
    if (result == CUDA_SUCCESS) memory.push_back(address);
    return result;
  }

  CUresult linear(std::uint64_t bytes) {
    CUdeviceptr address = 0;
    const CUresult result = CALL(cuMemAlloc_v2)(&address, bytes);
    if (result == CUDA_SUCCESS) memory.push_back(address);
    return result;
  }

  CUresult make_pool() {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {1, device};
    return CALL(cuMemPoolCreate)(&made, &props);
  }

  CUresult information() {
    std::size_t free = 0, total = 0;
    return CALL(cuMemGetInfo_v2)(&free, &total);
  }

  static CUresult left(std::string& told) {
    std::size_t free = 0, total = 0;
    const CUresult result = CALL(cuMemGetInfo_v2)(&free, &total);
    told = std::to_string(free);
    return result;
  }

  template <typename Function>
  static Function* nvml(const char* name) {
    static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
  }
  // nvml.h: nvmlDeviceGetMemoryInfo fills three counts of bytes, the first of which is the total.
  static bool nvml_memory(unsigned long long (&bytes)[3]) {
    void* gpu = nullptr;
    return nvml<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2")(0, &gpu) == 0 &&
           nvml<int(void*, unsigned long long*)>("nvmlDeviceGetMemoryInfo")(gpu, bytes) == 0;
  }
  static CUresult ask_nvml() {
    unsigned long long bytes[3];
    return nvml<int()>("nvmlInit_v2")() == 0 && nvml_memory(bytes) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  }
  // Returns how many processes NVML lists. nvml.h: an entry has 24 bytes.
  static CUresult listed(std::string& told) {
    unsigned count = 64;
    std::uint64_t entries[3 * 64];
    void* gpu = nullptr;
    const bool known =
        nvml<int()>("nvmlInit_v2")() == 0 &&
        nvml<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2")(0, &gpu) == 0 &&
        nvml<int(void*, unsigned*, void*)>("nvmlDeviceGetComputeRunningProcesses_v3")(gpu, &count, entries) == 0;
    told = std::to_string(count);
    return known ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  }
  // Initialises NVML here, and returns the card's total as NVML reports it in a child of fork().
  static CUresult nvml_in_child(std::string& told) {
    int ends[2];
    unsigned long long bytes[3] = {};
    if (ask_nvml() != CUDA_SUCCESS || ::pipe(ends) != 0) return CUDA_ERROR_UNKNOWN;
    const pid_t child = ::fork();
    if (child == 0) {
      const bool written = nvml_memory(bytes) && ::write(ends[1], bytes, sizeof bytes) == sizeof bytes;
      ::_exit(written ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    const bool read = status == 0 && ::read(ends[0], bytes, sizeof bytes) == sizeof bytes;
    told = std::to_string(bytes[0]);
    return read ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  }
  // Queries the free memory `times` times.
  static CUresult look(std::uint64_t times) {
    for (std::size_t free = 0, total = 0; times != 0; --times)
      if (const CUresult result = CALL(cuMemGetInfo_v2)(&free, &total); result != CUDA_SUCCESS) return result;
    return CUDA_SUCCESS;
  }

  CUresult destroy_pool() { return CALL(cuMemPoolDestroy)(made); }

  CUresult choose(std::uint64_t which) {
    while (streams.size() <= which) {
      CUstream more = nullptr;
      if (const CUresult result = CALL(cuStreamCreate)(&more, CU_STREAM_NON_BLOCKING); result != CUDA_SUCCESS)
        return result;
      streams.push_back(more);
    }
    stream = streams[which];
    return CUDA_SUCCESS;
  }

  CUresult wrong(std::string& told) {
    CUdeviceptr address = 0;
    const auto context = reinterpret_cast<CUstream>(this);
    std::uint64_t word[16] = {};
    const auto no_pool = reinterpret_cast<CUmemoryPool>(word);
    const CUresult all[] = {CALL(cuMemAllocAsync)(&address, 0, stream),
                            CALL(cuMemAllocAsync)(nullptr, 1, stream),
                            CALL(cuMemAllocAsync)(&address, ~0ull, stream),
                            CALL(cuMemAllocAsync)(&address, 1ull << 50, stream),
                            CALL(cuMemAllocAsync)(&address, 1, context),
                            CALL(cuMemAllocAsync)(&address, 1ull << 50, context),
                            CALL(cuMemAllocAsync_ptsz)(&address, 0, nullptr),
                            CALL(cuMemAllocFromPoolAsync)(&address, 1, nullptr, stream),
                            CALL(cuMemAllocFromPoolAsync)(&address, 1, no_pool, stream),
                            CALL(cuMemAllocFromPoolAsync)(&address, 1ull << 50, no_pool, stream),
                            CALL(cuMemFreeAsync)(0, stream),
                            CALL(cuMemFreeAsync)(4096, stream),
                            CALL(cuMemFreeAsync)(4096, context),
                            CALL(cuMemPoolCreate)(nullptr, nullptr),
                            CALL(cuMemPoolDestroy)(nullptr),
                            CALL(cuMemPoolDestroy)(no_pool),
                            CALL(cuMemPoolDestroy)(current()),
                            CALL(cuMemPoolTrimTo)(nullptr, 0),
                            CALL(cuMemPoolTrimTo)(no_pool, 0),
                            CALL(cuDeviceSetMemPool)(0, no_pool),
                            CALL(cuDeviceSetMemPool)(77, current()),
                            CALL(cuDeviceGraphMemTrim)(77),
                            CALL(cuDeviceGraphMemTrim)(0)};
    for (const CUresult each : all) told += std::to_string(each) + " ";
    return CUDA_SUCCESS;
  }

  CUresult attribute(CUmemPool_attribute which, std::string& told) {
    std::uint64_t value = 0;
    const CUresult result = CALL(cuMemPoolGetAttribute)(current(), which, &value);
    told = std::to_string(value);
    return result;
  }

  CUresult graph_attribute(CUgraphMem_attribute which, std::string& told) const {
    std::uint64_t value = 0;
    const CUresult result = CALL(cuDeviceGetGraphMemAttribute)(device, which, &value);
    told = std::to_string(value);
    return result;
  }

  CUresult act(const std::string& word, std::string& told) {
    const std::size_t colon = word.find(':');
    const std::string verb = word.substr(0, colon);
    std::uint64_t number = colon == std::string::npos ? 0 : std::strtoull(word.c_str() + colon + 1, nullptr, 10);
    if (verb == "alloc") return take(nullptr, number);
    if (verb == "from") return take(made, number);
    if (verb == "linear") return linear(number);
    if (verb == "fill") return CALL(cuMemsetD8_v2)(memory.front(), 1, number);
    if (verb == "free") return CALL(cuMemFreeAsync)(memory.at(number), stream);
    if (verb == "now") return CALL(cuMemFree_v2)(memory.at(number));
    if (verb == "stream") return choose(number);
    if (verb == "keep") return CALL(cuMemPoolSetAttribute)(current(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &number);
    if (verb == "trim") return CALL(cuMemPoolTrimTo)(current(), number);
    if (verb == "sync") return CALL(cuStreamSynchronize)(stream);
    if (verb == "ctxsync") return CALL(cuCtxSynchronize)();
    if (verb == "query") return CALL(cuStreamQuery)(stream);
    if (verb == "spin") return launch_kernel("spin", 5);
    if (verb == "raise") return launch_kernel("raise", 5);
    if (verb == "pool") return make_pool();
    if (verb == "use") return CALL(cuDeviceSetMemPool)(device, made);
    if (verb == "destroy") return destroy_pool();
    if (verb == "reset") return CALL(cuDevicePrimaryCtxReset_v2)(device);
    if (verb == "device") return open(static_cast<CUdevice>(number));
    if (verb == "reserved") return attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, told);
    if (verb == "used") return attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, told);
    if (verb == "info") return information();
    if (verb == "left") return left(told);
    if (verb == "nvml") return ask_nvml();
    if (verb == "end-nvml") return static_cast<CUresult>(nvml<int()>("nvmlShutdown")());
    if (verb == "listed") return listed(told);
    if (verb == "nvml-in-child") return nvml_in_child(told);
    if (verb == "look") return look(number);
    if (verb == "wrong") return wrong(told);
    if (verb == "deep") return launch_kernel("deep", 0);
    if (verb == "heap") return CALL(cuCtxSetLimit)(static_cast<CUlimit>(2), number);
    if (verb == "stack") return CALL(cuCtxSetLimit)(static_cast<CUlimit>(0), number);
    if (verb == "printf") return CALL(cuCtxSetLimit)(static_cast<CUlimit>(1), number);
    if (verb == "module") return load_statics(number);
    if (verb == "packed") return load_packed(number);
    if (verb == "library" || verb == "other-library") return load_library(number, verb == "other-library");
    if (verb == "-library") return CALL(cuLibraryUnload)(library);
    if (verb == "library-there") return use_library_in_last_context();
    if (verb == "code") return load_code(number, 0);
    if (verb == "shown-code") return load_code(number, 2 << 20);
    if (verb == "modules") return load_many(number, told);
    if (verb == "managed") return managed(number);
    if (verb == "physical") return create_physical(number);
    if (verb == "-physical") return CALL(cuMemRelease)(handle);
    if (verb == "unload") return CALL(cuModuleUnload)(statics);
    if (verb == "context") return another_context(device, false);
    if (verb == "lone-context") return another_context(static_cast<CUdevice>(number), true);
    if (verb == "-context") return destroy_last_context();
    if (verb == "detach") return destroy_last_context(true);
    if (verb == "-context-elsewhere") return destroy_first_context_elsewhere();
    if (verb == "contexts") return many_contexts(number, true);
    if (verb == "-contexts") return many_contexts(number, false);
    if (verb == "-primary-elsewhere") return release_primary_elsewhere(static_cast<CUdevice>(number));
    if (verb == "race-primary") return race_primary(number);
    if (verb == "primary-twice") return retain_primary_twice(static_cast<CUdevice>(number));
    if (verb == "primary") return retain_primary(static_cast<CUdevice>(number));
    if (verb == "-primary") return CALL(cuDevicePrimaryCtxRelease_v2)(static_cast<CUdevice>(number));
    if (verb == "graph") return graphs.make(1, number, true, 0);
    if (verb == "many") return graphs.make(static_cast<unsigned>(number), 1 << 20, true, 0);
    if (verb == "keeping") return graphs.make(1, number, false, 0);
    if (verb == "repeating") return graphs.make(1, number, false, 1);
    if (verb == "uploading") return graphs.make(1, number, true, 2);
    if (verb == "captured") return graphs.captured(number, stream);
    if (verb == "moved") return graphs.moved(number);
    if (verb == "launch") return CALL(cuGraphLaunch)(graphs.all.at(number).exec, stream);
    if (verb == "upload") return CALL(cuGraphUpload)(graphs.all.at(number).exec, stream);
    if (verb == "end") return CALL(cuGraphExecDestroy)(graphs.all.at(number).exec);
    if (verb == "drop") return CALL(cuMemFreeAsync)(graphs.all.at(number).address, stream);
    if (verb == "gtrim") return CALL(cuDeviceGraphMemTrim)(device);
    if (verb == "greserved") return graph_attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, told);
    if (verb == "gused") return graph_attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, told);
    if (verb == "gstorm") return graphs.storm(number, seed);
    if (verb == "fork") return forked(number);
    if (verb == "storm") return storm(number);
    if (verb == "whole") return whole(number);
    if (verb == "threads") return threads(number);
    if (verb == "steps") return steps(number);
    std::printf("%s is no word of this program\n", word.c_str());
    std::exit(2);
  }
};

void say(Tenant& tenant, const std::string& word) {
  std::string told;
  const CUresult result = tenant.act(word, told);
  std::printf("%s: %u%s%s\n", word.c_str(), result, told.empty() ? "" : " ", told.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Tenant tenant;
  CUresult ready = CALL(cuInit)(0);
  if (ready == CUDA_SUCCESS) ready = tenant.open(0);
  std::printf("ready: %u\n", ready);
  std::fflush(stdout);
  if (ready != CUDA_SUCCESS) return 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "-") != 0) {
      say(tenant, argv[i]);
      continue;
    }
    for (std::string word; std::getline(std::cin, word);) say(tenant, word);
  }
  return 0;
}
