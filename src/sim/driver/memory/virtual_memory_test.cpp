// Virtual memory management as programs use it, against the node's truth: which process holds memory, and until when.
#include <fcntl.h>

#include "sim/driver/memory/test_memory_sharing.hpp"
#include "sim/driver/test_program.hpp"

namespace headgate::sim {
namespace {

using test::AllocationProperties;
using test::Channel;
using test::hear;
using test::kFdType;
using test::receive_fd;
using test::send_fd;
using test::tell;

constexpr std::size_t kChunk = 2 << 20;

// Bytes taken on all devices, without contexts.
std::uint64_t taken(const DeviceTruth& device) {
  std::uint64_t contexts = 0;
  for (const ProcessTruth& process : device.processes) contexts += process.context_bytes;
  return device.used_bytes - contexts;
}
std::uint64_t listed(const DeviceTruth& device) {
  std::uint64_t bytes = 0;
  for (const ProcessTruth& process : device.processes) bytes += process.bytes;
  return bytes;
}

struct Mapper : Program {
  using Program::Program;
  CUmemGenericAllocationHandle create(std::size_t bytes, unsigned handle_types = 0, int device = 0) {
    AllocationProperties asked;
    asked.handle_types = handle_types;
    asked.location.id = device;
    CUmemGenericAllocationHandle handle = 0;
    OK(cu.cuMemCreate(&handle, bytes, asked.get(), 0));
    return handle;
  }
  CUdeviceptr reserve(std::size_t bytes) {
    CUdeviceptr base = 0;
    OK(cu.cuMemAddressReserve(&base, bytes, 0, 0, 0));
    return base;
  }
  void allow(CUdeviceptr at, std::size_t bytes, unsigned flags = 3, int device = 0) {
    const CUmemAccessDesc access{{1, device}, CUmemAccess_flags(flags)};
    OK(cu.cuMemSetAccess(at, bytes, &access, 1));
  }
  CUdeviceptr mapped(CUmemGenericAllocationHandle handle, std::size_t bytes = kChunk) {
    const CUdeviceptr at = reserve(bytes);
    OK(cu.cuMemMap(at, bytes, 0, handle, 0));
    allow(at, bytes);
    return at;
  }
  int exported(CUmemGenericAllocationHandle handle) {
    int fd = -1;
    OK(cu.cuMemExportToShareableHandle(&fd, handle, kFdType, 0));
    return fd;
  }
  CUmemGenericAllocationHandle imported(int fd) {
    CUmemGenericAllocationHandle handle = 0;
    OK(cu.cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), kFdType));
    return handle;
  }
  void fill(CUdeviceptr at, unsigned value, std::size_t words) {
    OK(cu.cuMemsetD32_v2(at, value, words));
    OK(cu.cuCtxSynchronize());
  }
  unsigned word(CUdeviceptr at) {
    unsigned value = 0;
    OK(cu.cuMemcpyDtoH_v2(&value, at, sizeof value));
    return value;
  }
};

class VirtualMemory : public Driver {
 protected:
  [[nodiscard]] bool no_files() const {
    std::error_code missing;
    return std::filesystem::is_empty(directory_ + "/memory", missing) || missing;
  }
};

TEST_F(VirtualMemory, MemoryIsFreedWithTheLastHandleAndMapping) {
  ASSERT_EQ(run([this] {
              Mapper program;
              const auto handle = program.create(kChunk);
              must(taken(truth()) == kChunk, "created");
              const CUdeviceptr first = program.mapped(handle), second = program.mapped(handle);
              program.fill(first, 7, kChunk / 4);
              must(program.word(second + kChunk - 4) == 7, "both mappings are the same memory");
              OK(program.cu.cuMemRelease(handle));
              OK(program.cu.cuMemUnmap(first, kChunk));
              must(taken(truth()) == kChunk, "mapped still");
              CUmemGenericAllocationHandle again = 0;
              OK(program.cu.cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(second + 4096)));
              must(again == handle, "the same handle");
              OK(program.cu.cuMemUnmap(second, kChunk));
              must(taken(truth()) == kChunk, "a handle still");
              OK(program.cu.cuMemRelease(again));
              must(taken(truth()) == 0, "all gone");
              must(program.cu.cuMemRelease(again) == CUDA_ERROR_INVALID_VALUE, "released twice");
              OK(program.cu.cuMemAddressFree(first, kChunk));
            }),
            0);
}

// Like PyTorch's expandable segments: one large range, chunks mapped at its end, unmapped in the middle, mapped again.
TEST_F(VirtualMemory, ASegmentGrowsAndShrinksInOneRange) {
  ASSERT_EQ(
      run([this] {
        Mapper program;
        const CUdeviceptr base = program.reserve(std::size_t{1} << 40);
        std::vector<CUmemGenericAllocationHandle> handles;
        for (std::size_t i = 0; i < 10; ++i) {
          handles.push_back(program.create(kChunk));
          OK(program.cu.cuMemMap(base + i * kChunk, kChunk, 0, handles[i], 0));
        }
        program.allow(base, 10 * kChunk);
        program.fill(base + kChunk / 2, 5, 8 * kChunk / 4);
        must(program.word(base + 8 * kChunk) == 5, "a fill over nine chunks");
        OK(program.cu.cuMemUnmap(base + 3 * kChunk, 2 * kChunk));
        OK(program.cu.cuMemRelease(handles[3]));
        OK(program.cu.cuMemRelease(handles[4]));
        must(taken(truth()) == 8 * kChunk, "two gone");
        unsigned value = 0;
        must(program.cu.cuMemcpyDtoH_v2(&value, base + 3 * kChunk, 4) == CUDA_ERROR_INVALID_VALUE, "unmapped");
        must(program.cu.cuMemsetD32_v2(base + 2 * kChunk, 1, 2 * kChunk / 4) == CUDA_ERROR_INVALID_VALUE, "a gap");
        handles[3] = program.create(2 * kChunk);
        OK(program.cu.cuMemMap(base + 3 * kChunk, 2 * kChunk, 0, handles[3], 0));
        program.allow(base + 3 * kChunk, 2 * kChunk);
        must(program.word(base + 3 * kChunk) == 0 && program.word(base + 5 * kChunk) == 5, "new memory, old memory");
      }),
      0);
}

TEST_F(VirtualMemory, BadInputGetsTheDriversAnswerAndChangesNothing) {
  ASSERT_EQ(run([this] {
              Mapper p;
              const auto bad = [](CUresult result) { return result == CUDA_ERROR_INVALID_VALUE; };
              CUdeviceptr base = 0;
              CUmemGenericAllocationHandle handle = 0;
              AllocationProperties asked;
              must(bad(p.cu.cuMemAddressReserve(&base, 0, 0, 0, 0)), "a range of nothing");
              must(bad(p.cu.cuMemAddressReserve(nullptr, kChunk, 0, 0, 0)), "a range to nowhere");
              must(bad(p.cu.cuMemAddressReserve(&base, 1000, 0, 0, 0)), "a misaligned size");
              must(bad(p.cu.cuMemAddressReserve(&base, kChunk, 3, 0, 0)), "an alignment of 3");
              must(p.cu.cuMemAddressReserve(&base, ~0ull << 21, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY, "a huge range");
              must(bad(p.cu.cuMemCreate(&handle, 0, asked.get(), 0)), "no bytes");
              must(bad(p.cu.cuMemCreate(&handle, kChunk + 1, asked.get(), 0)), "misaligned bytes");
              must(bad(p.cu.cuMemCreate(nullptr, kChunk, asked.get(), 0)), "no handle");
              must(bad(p.cu.cuMemCreate(&handle, kChunk, nullptr, 0)), "no properties");
              must(bad(p.cu.cuMemCreate(&handle, kChunk, asked.get(), 1)), "flags");
              must(p.cu.cuMemCreate(&handle, 1ull << 60, asked.get(), 0) == CUDA_ERROR_OUT_OF_MEMORY, "a huge object");
              asked.location.id = 9;
              must(p.cu.cuMemCreate(&handle, kChunk, asked.get(), 0) == CUDA_ERROR_INVALID_DEVICE, "GPU 9");
              asked.location = {3, 0};
              must(p.cu.cuMemCreate(&handle, kChunk, asked.get(), 0) == CUDA_ERROR_NOT_SUPPORTED, "host memory");
              must(bad(p.cu.cuMemRelease(0)) && bad(p.cu.cuMemRelease(12345)), "unknown handles");
              handle = p.create(2 * kChunk);
              base = p.reserve(4 * kChunk);
              must(bad(p.cu.cuMemMap(base, kChunk, 0, 12345, 0)), "an unknown handle");
              must(bad(p.cu.cuMemMap(base + 1, kChunk, 0, handle, 0)), "a misaligned address");
              must(bad(p.cu.cuMemMap(base, 0, 0, handle, 0)), "no bytes mapped");
              must(bad(p.cu.cuMemMap(base, 3 * kChunk, 0, handle, 0)), "more than there is");
              must(bad(p.cu.cuMemMap(base + 3 * kChunk, 2 * kChunk, 0, handle, 0)), "beyond the range");
              OK(p.cu.cuMemMap(base, 2 * kChunk, 0, handle, 0));
              must(bad(p.cu.cuMemMap(base + kChunk, kChunk, 0, handle, 0)), "mapped already");
              must(bad(p.cu.cuMemUnmap(base, kChunk)), "part of a mapping");
              must(bad(p.cu.cuMemUnmap(base, 3 * kChunk)), "more than the mapping");
              must(bad(p.cu.cuMemUnmap(base, 0)), "nothing unmapped");
              must(bad(p.cu.cuMemAddressFree(base, 4 * kChunk)), "a range in use");
              const CUmemAccessDesc access{{1, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                  strange{{1, 0}, CUmemAccess_flags(2)}, far{{1, 9}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
              must(bad(p.cu.cuMemSetAccess(base, kChunk, &access, 1)), "access to part of a mapping");
              must(bad(p.cu.cuMemSetAccess(base, 2 * kChunk, &strange, 1)), "strange access");
              must(p.cu.cuMemSetAccess(base, 2 * kChunk, &far, 1) == CUDA_ERROR_INVALID_DEVICE, "access of GPU 9");
              unsigned value = 0;
              must(bad(p.cu.cuMemcpyDtoH_v2(&value, base, 4)), "no access yet");
              unsigned long long flags = 9;
              OK(p.cu.cuMemGetAccess(&flags, &access.location, base));
              must(flags == 0, "no access told");
              p.allow(base, 2 * kChunk, 1);
              OK(p.cu.cuMemGetAccess(&flags, &access.location, base + kChunk));
              must(flags == 1, "reading only");
              int fd = -1;
              must(bad(p.cu.cuMemExportToShareableHandle(&fd, handle, kFdType, 0)), "not asked for at its creation");
              must(bad(p.cu.cuMemFree_v2(base)), "a mapping is not cuMemFree's");
              OK(p.cu.cuMemUnmap(base, 2 * kChunk));
              must(bad(p.cu.cuMemUnmap(base, 2 * kChunk)), "unmapped twice");
              must(bad(p.cu.cuMemAddressFree(base, kChunk)), "another size");
              OK(p.cu.cuMemAddressFree(base, 4 * kChunk));
              must(bad(p.cu.cuMemAddressFree(base, 4 * kChunk)), "freed twice");
              OK(p.cu.cuMemRelease(handle));
              for (const int strange_fd : {-1, 0, ::open("/dev/null", O_RDWR), 9999}) {
                void* as_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(strange_fd));
                must(bad(p.cu.cuMemImportFromShareableHandle(&handle, as_handle, kFdType)), "no memory's descriptor");
              }
              must(p.cu.cuMemMapArrayAsync(nullptr, 0, nullptr) == CUDA_ERROR_NOT_SUPPORTED, "sparse arrays");
              must(p.cu.cuMulticastCreate(&handle, nullptr) == CUDA_ERROR_NOT_SUPPORTED, "multicast");
              must(taken(truth()) == 0, "nothing left");
            }),
            0);
}

TEST_F(VirtualMemory, AnImporterKeepsTheBytesOfAKilledExporter) {
  Channel fds, words;
  const pid_t exporter = start([&] {
    Mapper program;
    const auto handle = program.create(kChunk, 1);
    program.fill(program.mapped(handle), 41, kChunk / 4);
    must(send_fd(fds.ends[0], program.exported(handle)), "sent");
    must(hear(words.ends[0]) == 'g', "the importer has written");
    ::kill(::getpid(), SIGKILL);
  });
  const pid_t importer = start([&] {
    Mapper program;
    const int fd = receive_fd(fds.ends[1]);
    const auto handle = program.imported(fd);
    ::close(fd);
    const CUdeviceptr at = program.mapped(handle);
    OK(program.cu.cuMemRelease(handle));
    must(program.word(at) == 41, "the exporter's bytes");
    program.fill(at, 42, 1);
    tell(words.ends[1], 'g');
    must(hear(words.ends[1]) == 'n', "the test has looked");
    must(program.word(at) == 42, "kept");
    OK(program.cu.cuMemUnmap(at, kChunk));
    tell(words.ends[1], 'd');
    (void)hear(words.ends[1]);
  });
  EXPECT_NE(finish(exporter), 0);
  EXPECT_EQ(taken(truth()), kChunk) << "the importer keeps it";
  EXPECT_EQ(listed(truth()), 0u) << "its maker is dead, and no other process pays";
  tell(words.ends[0], 'n');
  EXPECT_EQ(hear(words.ends[0]), 'd');
  EXPECT_EQ(taken(truth()), 0u);
  tell(words.ends[0], 'e');
  EXPECT_EQ(finish(importer), 0);
  EXPECT_TRUE(no_files());
}

TEST_F(VirtualMemory, ADescriptorInAMessageKeepsItsMemory) {
  Channel fds;
  ASSERT_EQ(run([&] {
              Mapper program;
              must(send_fd(fds.ends[0], program.exported(program.create(kChunk, 1))), "sent");
            }),
            0);
  EXPECT_EQ(taken(truth()), kChunk);
  const int fd = receive_fd(fds.ends[1]);
  EXPECT_EQ(taken(truth()), kChunk);
  ASSERT_GE(fd, 0);
  ::close(fd);
  EXPECT_EQ(taken(truth()), 0u);
}

TEST_F(VirtualMemory, AForkedChildKeepsOnlyItsDescriptors) {
  Channel words;
  const pid_t program = start([&] {
    Mapper mapper;
    const auto kept = mapper.create(kChunk, 1), lost = mapper.create(2 * kChunk, 1);
    mapper.mapped(lost, 2 * kChunk);
    (void)mapper.exported(kept);
    if (::fork() == 0) {
      CUmemGenericAllocationHandle none = 0;
      must(mapper.cu.cuMemCreate(&none, kChunk, AllocationProperties{}.get(), 0) == CUDA_ERROR_NOT_INITIALIZED, "fork");
      tell(words.ends[1], 'f');
      (void)hear(words.ends[1]);
      ::_exit(0);
    }
    must(hear(words.ends[1]) != 'x', "");
  });
  EXPECT_EQ(hear(words.ends[0]), 'f');
  EXPECT_EQ(taken(truth()), 3 * kChunk);
  ::kill(program, SIGKILL);
  finish(program);
  EXPECT_EQ(taken(truth()), kChunk);
  tell(words.ends[0], 'e');
  char nothing = 0;
  ::shutdown(words.ends[1], SHUT_WR);
  while (::read(words.ends[0], &nothing, 1) > 0) continue;
  for (int tries = 0; taken(truth()) != 0 && tries < 2000; ++tries) ::usleep(1000);
  EXPECT_EQ(taken(truth()), 0u);
}

// Whichever process dies at whichever step, the node counts exactly the memory that is still held.
TEST_F(VirtualMemory, AKillAtAnyJournalStepLosesNoByte) {
  int killed = 0;
  for (int step = 1; step < 400; ++step) {
    const int status = run([&] {
      ::setenv("HEADGATE_SIM_KILL_STEP", std::to_string(step).c_str(), 1);
      Mapper program;
      const auto handle = program.create(kChunk, 1);
      const int fd = program.exported(handle);
      const CUdeviceptr at = program.mapped(handle);
      OK(program.cu.cuMemRelease(handle));
      const auto again = program.imported(fd);
      OK(program.cu.cuMemUnmap(at, kChunk));
      OK(program.cu.cuMemRelease(again));
      ::close(fd);
    });
    EXPECT_EQ(taken(truth()), 0u) << "after a kill at step " << step;
    EXPECT_TRUE(no_files() || status != 0) << step;
    if (status == 0) break;
    ++killed;
  }
  EXPECT_GT(killed, 10);
}

TEST_F(VirtualMemory, ExternalMemoryIsTheSameBytes) {
  Channel fds;
  const pid_t exporter = start([&] {
    Mapper program;
    const auto handle = program.create(2 * kChunk, 1);
    program.fill(program.mapped(handle, 2 * kChunk), 9, 2 * kChunk / 4);
    must(send_fd(fds.ends[0], program.exported(handle)), "sent");
  });
  EXPECT_EQ(finish(exporter), 0);
  const int status = run([&] {
    Mapper program;
    struct {
      unsigned type = 1;
      alignas(8) int fd = -1;
      void* more = nullptr;
      unsigned long long size = 2 * kChunk;
      unsigned flags = 0, reserved[16] = {};
    } asked;
    asked.fd = receive_fd(fds.ends[1]);
    CUexternalMemory memory = nullptr;
    const auto import = [&] {
      return program.cu.cuImportExternalMemory(&memory,
                                               reinterpret_cast<const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*>(&asked));
    };
    asked.size = 3 * kChunk;
    must(import() == CUDA_ERROR_INVALID_VALUE, "more than there is");
    asked.size = 2 * kChunk;
    OK(import());
    must(::fcntl(asked.fd, F_GETFD) == -1, "the descriptor is the driver's now");
    struct {
      unsigned long long offset, size;
      unsigned flags, reserved[16] = {};
    } part{kChunk + 256, 4096, 0};
    CUdeviceptr buffer = 0;
    OK(program.cu.cuExternalMemoryGetMappedBuffer(&buffer, memory,
                                                  reinterpret_cast<const CUDA_EXTERNAL_MEMORY_BUFFER_DESC*>(&part)));
    OK(program.cu.cuDestroyExternalMemory(memory));
    must(program.cu.cuDestroyExternalMemory(memory) == CUDA_ERROR_INVALID_HANDLE, "destroyed twice");
    must(program.word(buffer + 4092) == 9, "the exporter's bytes");
    must(taken(truth()) == 2 * kChunk, "the buffer keeps all of it");
    OK(program.cu.cuMemFree_v2(buffer));
    must(program.cu.cuMemFree_v2(buffer) == CUDA_ERROR_INVALID_VALUE, "freed twice");
    must(taken(truth()) == 0, "gone");
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace headgate::sim
