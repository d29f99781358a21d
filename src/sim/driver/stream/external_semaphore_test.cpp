// Semaphores imported from descriptors, between streams and between processes.
#include <sys/mman.h>

#include "sim/driver/test_program.hpp"

namespace headgate::sim {
namespace {

class ExternalSemaphores : public Driver {};

struct HandleDesc {
  std::uint32_t type = 1, padding = 0;
  std::uint64_t fd = 0, more = 0;
  std::uint32_t flags = 0, reserved[17] = {};
};
struct Parameters {
  std::uint64_t words[18] = {};
};

template <typename... Values>
CUresult call(const char* name, Values... values) {
  static void* const library = ::dlopen(HEADGATE_SIM_CUDA, RTLD_NOW);
  return reinterpret_cast<CUresult (*)(Values...)>(::dlsym(library, name))(values...);
}
void is(CUresult result, unsigned wanted, const std::string& what) {
  must(static_cast<unsigned>(result) == wanted, message(what, " answered ", static_cast<unsigned>(result)));
}
CUexternalSemaphore import(int descriptor, unsigned type) {
  HandleDesc desc;
  desc.type = type;
  desc.fd = static_cast<std::uint64_t>(::dup(descriptor));
  CUexternalSemaphore made = nullptr;
  OK(call("cuImportExternalSemaphore", &made, &desc));
  return made;
}
CUresult send(const char* name, CUexternalSemaphore semaphore, std::uint64_t value, CUstream stream) {
  Parameters parameters;
  parameters.words[0] = value;
  return call(name, &semaphore, &parameters, 1u, stream);
}
constexpr const char *kSignal = "cuSignalExternalSemaphoresAsync", *kWait = "cuWaitExternalSemaphoresAsync";

TEST_F(ExternalSemaphores, AnotherProcessesSignalResumesAStream) {
  const int file = ::memfd_create("semaphore", 0);
  ASSERT_GE(file, 0);
  const pid_t waiter = start([file] {
    Program p;
    const CUexternalSemaphore semaphore = import(file, 9);
    CUstream stream = p.stream();
    OK(send(kWait, semaphore, 5, stream));
    p.run_flag(p.raise, 1, p.stream());
    OK(p.cu.cuStreamSynchronize(stream));
  });
  EXPECT_EQ(run([file] {
              Program p;
              const CUexternalSemaphore semaphore = import(file, 9);
              p.run_flag(p.spin, 1, nullptr);  // until the other stream waits
              OK(p.cu.cuCtxSynchronize());
              OK(send(kSignal, semaphore, 4, nullptr));
              OK(send(kSignal, semaphore, 7, nullptr));
              OK(p.cu.cuCtxSynchronize());
            }),
            0);
  EXPECT_EQ(finish(waiter), 0);
  ::close(file);
}

TEST_F(ExternalSemaphores, APlainOneLetsOneWaiterPassForEachSignal) {
  EXPECT_EQ(run([] {
              Program p;
              const int file = ::memfd_create("semaphore", 0);
              const CUexternalSemaphore semaphore = import(file, 1);
              CUstream waits = p.stream(), signals = p.stream();
              OK(send(kWait, semaphore, 0, waits));
              OK(send(kSignal, semaphore, 0, signals));
              OK(p.cu.cuStreamSynchronize(waits));
              OK(send(kWait, semaphore, 0, waits));
              is(p.cu.cuStreamQuery(waits), 600, "the signal is used up");
              OK(send(kSignal, semaphore, 0, signals));
              OK(p.cu.cuStreamSynchronize(waits));
              is(send(kWait, nullptr, 0, waits), 400, "no semaphore");
              is(send(kWait, semaphore, 0, reinterpret_cast<CUstream>(p.context)), 400, "no stream");
              HandleDesc desc;
              CUexternalSemaphore none = nullptr;
              desc.fd = 9999;
              is(call("cuImportExternalSemaphore", &none, &desc), 1, "no descriptor");
              desc.type = 4;
              is(call("cuImportExternalSemaphore", &none, &desc), 801, "a kind that this system does not have");
              desc.type = 99;
              is(call("cuImportExternalSemaphore", &none, &desc), 1, "no kind");
              OK(call("cuDestroyExternalSemaphore", semaphore));
              is(call("cuDestroyExternalSemaphore", semaphore), 400, "twice");
              ::close(file);
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
