// Streams that wait for a word that the CPU writes.
#include "sim/driver/test_program.hpp"

namespace headgate::sim {
namespace {

class StreamWords : public Driver {};

TEST_F(StreamWords, AStreamContinuesWhenTheCpuStoresItsValue) {
  EXPECT_EQ(run([] {
              Program p;
              for (const bool registered : {false, true}) {
                alignas(4096) static std::uint32_t own[1024];
                void* memory = own;
                if (registered) OK(p.cu.cuMemHostRegister_v2(memory, sizeof own, 2));
                else OK(p.cu.cuMemHostAlloc(&memory, 4096, 2));
                auto* word = static_cast<std::atomic<std::uint32_t>*>(memory);
                *word = 0;
                CUdeviceptr address = 0;
                OK(p.cu.cuMemHostGetDevicePointer_v2(&address, memory, 0));
                CUstream stream = p.stream();
                OK(p.cu.cuStreamWaitValue32_v2(stream, address, 5, 1));
                OK(p.cu.cuStreamWriteValue32_v2(stream, address, 6, 0));
                must(p.cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY, "nothing is there yet");
                std::thread processor([word] { *word = 5; });
                OK(p.cu.cuStreamSynchronize(stream));
                processor.join();
                must(*word == 6, "and it wrote back");
                OK(p.cu.cuStreamWaitValue32_v2(stream, address, 6, 1));
                OK(p.cu.cuStreamSynchronize(stream));
                OK(registered ? p.cu.cuMemHostUnregister(memory) : p.cu.cuMemFreeHost(memory));
              }
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
