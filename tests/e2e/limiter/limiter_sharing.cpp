// A puppet for the sharing tests: executes commands line by line and replies with the driver's result. Descriptors are
// sent over the socket with the number in SHARING_SOCKET.
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sim/driver/memory/test_memory_sharing.hpp"
#include "support/driver_call.hpp"

using namespace headgate;
using namespace headgate::abi;

namespace {

void next_tick() {
  timespec before{}, now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &before);
  do ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  while (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec);
}

constexpr std::size_t kChunk = 2 << 20;

struct Object {
  CUmemGenericAllocationHandle handle = 0;
  std::size_t bytes = 0;
  std::vector<CUdeviceptr> mappings;
};
std::map<int, Object> objects;
std::map<int, CUdeviceptr> pointers;

CUresult create(int name, std::size_t chunks, int device = 0) {
  test::AllocationProperties asked;
  asked.handle_types = test::kPosixFd;
  asked.location.id = device;
  Object& object = objects[name];
  object.bytes = chunks * kChunk;
  return CALL(cuMemCreate)(&object.handle, object.bytes, asked.get(), 0);
}

// cuMemUnmap leaves the range reserved, so free it too.
CUresult unmap(Object& object) {
  const CUdeviceptr at = object.mappings.back();
  const CUresult result = CALL(cuMemUnmap)(at, object.bytes);
  if (result == CUDA_SUCCESS) {
    CALL(cuMemAddressFree)(at, object.bytes);
    object.mappings.pop_back();
  }
  return result;
}

CUresult map(Object& object) {
  CUdeviceptr at = 0;
  const CUmemAccessDesc access{{1, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUresult result = CALL(cuMemAddressReserve)(&at, object.bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) result = CALL(cuMemMap)(at, object.bytes, 0, object.handle, 0);
  if (result == CUDA_SUCCESS) object.mappings.push_back(at);
  return result == CUDA_SUCCESS ? CALL(cuMemSetAccess)(at, object.bytes, &access, 1) : result;
}

// The addresses stay reserved.
CUresult sleep(Object& object) {
  const CUresult result = CALL(cuMemUnmap)(object.mappings.back(), object.bytes);
  return result == CUDA_SUCCESS ? CALL(cuMemRelease)(object.handle) : result;
}
CUresult wake(int name) {
  const CUresult result = create(name, objects[name].bytes / kChunk);
  if (result != CUDA_SUCCESS) return result;
  return CALL(cuMemMap)(objects[name].mappings.back(), objects[name].bytes, 0, objects[name].handle, 0);
}

// Maps chunks at the end of one range until one is refused. Returns how many fitted; 1000 if, after unmapping one or
// three, exactly that many did not fit again.
unsigned segment(std::size_t chunks) {
  const std::size_t bytes = chunks * kChunk;
  CUdeviceptr base = 0;
  if (CALL(cuMemAddressReserve)(&base, std::size_t{1} << 40, 0, 0, 0) != CUDA_SUCCESS) return 1001;
  const CUmemAccessDesc access{{1, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  unsigned count = 0;
  const auto grow = [&] {
    CUmemGenericAllocationHandle handle = 0;
    const test::AllocationProperties asked;
    if (CALL(cuMemCreate)(&handle, bytes, asked.get(), 0) != CUDA_SUCCESS) return false;
    const CUdeviceptr at = base + count * bytes;
    if (CALL(cuMemMap)(at, bytes, 0, handle, 0) != CUDA_SUCCESS) std::abort();
    if (CALL(cuMemSetAccess)(at, bytes, &access, 1) != CUDA_SUCCESS) std::abort();
    if (CALL(cuMemRelease)(handle) != CUDA_SUCCESS) std::abort();
    ++count;
    return true;
  };
  while (grow()) continue;
  const unsigned fitted = count;
  for (const unsigned less : {1u, 3u}) {
    if (CALL(cuMemUnmap)(base + (count - less) * bytes, less * bytes) != CUDA_SUCCESS) return 1002;
    count -= less;
    while (grow()) continue;
    if (count != fitted) return 1000;
  }
  return CALL(cuMemUnmap)(base, count * bytes) == CUDA_SUCCESS ? fitted : 1003;
}

unsigned bad() {
  const test::AllocationProperties asked;
  test::AllocationProperties far;
  far.location.id = 77;
  CUmemGenericAllocationHandle handle = 0, good = 0;
  CUdeviceptr base = 0;
  CUipcMemHandle ipc{};
  const CUresult none = CUDA_ERROR_INVALID_VALUE;
  int fd = -1;
  if (CALL(cuMemCreate)(&good, 2 * kChunk, asked.get(), 0) != CUDA_SUCCESS) return 99;
  if (CALL(cuMemAddressReserve)(&base, 4 * kChunk, 0, 0, 0) != CUDA_SUCCESS) return 98;
  if (CALL(cuMemMap)(base, 2 * kChunk, 0, good, 0) != CUDA_SUCCESS) return 97;
  const struct {
    CUresult is, wanted;
  } rows[] = {
      {CALL(cuMemCreate)(&handle, 0, asked.get(), 0), none},
      {CALL(cuMemCreate)(&handle, 1, asked.get(), 0), none},
      {CALL(cuMemCreate)(&handle, (1ull << 50) + 1, asked.get(), 0), none},
      {CALL(cuMemCreate)(nullptr, kChunk, asked.get(), 0), none},
      {CALL(cuMemCreate)(&handle, kChunk, nullptr, 0), none},
      {CALL(cuMemCreate)(&handle, kChunk, far.get(), 0), CUDA_ERROR_INVALID_DEVICE},
      {CALL(cuMemCreate)(&handle, ~0ull << 21, asked.get(), 0), CUDA_ERROR_OUT_OF_MEMORY},
      {CALL(cuMemRelease)(0), none},
      {CALL(cuMemRelease)(4711), none},
      {CALL(cuMemUnmap)(base, kChunk), none},
      {CALL(cuMemUnmap)(base, 4 * kChunk), none},
      {CALL(cuMemUnmap)(4711, kChunk), none},
      {CALL(cuMemMap)(base, kChunk, 0, good, 0), none},
      {CALL(cuMemRetainAllocationHandle)(&handle, nullptr), none},
      {CALL(cuMemExportToShareableHandle)(&fd, good, test::kFdType, 0), none},
      {CALL(cuMemExportToShareableHandle)(&fd, 4711, test::kFdType, 0), none},
      {CALL(cuMemImportFromShareableHandle)(&handle, nullptr, test::kFdType), none},
      {CALL(cuIpcGetMemHandle)(&ipc, 4711), none},
      {CALL(cuIpcGetMemHandle)(&ipc, base), none},
      {CALL(cuIpcOpenMemHandle_v2)(&base, ipc, 1), none},
      {CALL(cuIpcCloseMemHandle)(4711), none},
      {CALL(cuDestroyExternalMemory)(nullptr), CUDA_ERROR_INVALID_HANDLE},
      {CALL(cuImportExternalMemory)(nullptr, nullptr), none},
      {CALL(cuMemFree_v2)(base), none},
      {CALL(cuMemUnmap)(base, 2 * kChunk), CUDA_SUCCESS},
      {CALL(cuMemUnmap)(base, 2 * kChunk), none},
      {CALL(cuMemRelease)(good), CUDA_SUCCESS},
      {CALL(cuMemRelease)(good), none},
  };
  unsigned number = 0;
  for (const auto& row : rows) {
    ++number;
    if (row.is != row.wanted) return number;
  }
  return 0;
}

CUresult hand_out(const Object& object, int socket) {
  int fd = -1;
  const CUresult result = CALL(cuMemExportToShareableHandle)(&fd, object.handle, test::kFdType, 0);
  if (result != CUDA_SUCCESS) return result;
  test::send_fd(socket, fd);
  close(fd);
  return result;
}

CUresult take_in(Object& object, std::size_t chunks, int socket) {
  const int fd = test::receive_fd(socket);
  object.bytes = chunks * kChunk;
  const CUresult result = CALL(cuMemImportFromShareableHandle)(
      &object.handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), test::kFdType);
  close(fd);
  return result;
}

CUresult import_external(std::size_t bytes, int socket, bool keep) {
  struct {
    unsigned type = 1;
    alignas(8) int fd = -1;
    void* more = nullptr;
    unsigned long long size = 0;
    unsigned flags = 0, reserved[16] = {};
  } asked;
  asked.fd = test::receive_fd(socket);
  asked.size = bytes;
  CUexternalMemory memory = nullptr;
  const CUresult result =
      CALL(cuImportExternalMemory)(&memory, reinterpret_cast<const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*>(&asked));
  if (result == CUDA_SUCCESS && !keep) CALL(cuDestroyExternalMemory)(memory);
  if (result != CUDA_SUCCESS) close(asked.fd);
  return result;
}

template <typename T>
void send_bytes(int socket, const T& what) {
  (void)!write(socket, &what, sizeof what);
}

CUresult obey(const std::string& word, int name, std::size_t chunks, int device, int socket) {
  if (word == "create") return create(name, chunks, device);
  if (word == "wake") return wake(name);
  if (word == "alloc") return CALL(cuMemAlloc_v2)(&pointers[name], chunks * kChunk);
  if (word == "small") return CALL(cuMemAlloc_v2)(&pointers[name], chunks << 10);  // many of these fit in one slab
  if (word == "free") return CALL(cuMemFree_v2)(pointers[name]);
  if (word == "ipc") {
    CUipcMemHandle handle{};
    const CUresult result = CALL(cuIpcGetMemHandle)(&handle, pointers[name]);
    send_bytes(socket, handle);
    return result;
  }
  if (word == "open") {
    CUipcMemHandle handle{};
    (void)!read(socket, &handle, sizeof handle);
    return CALL(cuIpcOpenMemHandle_v2)(&pointers[name], handle, 1);
  }
  if (word == "close") return CALL(cuIpcCloseMemHandle)(pointers[name]);
  if (word == "external") return import_external(chunks * kChunk, socket, name != 0);
  if (word == "info") {
    next_tick();  // the limiter looks for ended processes once per clock tick
    std::size_t free = 0, total = 0;
    return CALL(cuMemGetInfo_v2)(&free, &total);
  }
  Object& object = objects[name];
  if (word == "sleep") return sleep(object);
  if (word == "release") return CALL(cuMemRelease)(object.handle);
  if (word == "map") return map(object);
  if (word == "unmap") return unmap(object);
  if (word == "retain") {
    return CALL(cuMemRetainAllocationHandle)(&object.handle, reinterpret_cast<void*>(object.mappings.back()));
  }
  if (word == "export") return hand_out(object, socket);
  if (word == "import") return take_in(object, chunks, socket);
  return CUDA_ERROR_NOT_FOUND;
}

// After a line of input, makes `steps` random calls. What is left is freed with the process, which stays until another
// line.
int race(int steps) {
  std::string word;
  std::getline(std::cin, word);
  unsigned seed = static_cast<unsigned>(getpid());
  int granted = 0, refused = 0;
  std::vector<int> names;
  for (int i = 0; i < steps; ++i) {
    const unsigned dice = static_cast<unsigned>(rand_r(&seed));
    if (names.size() < 4 && dice % 2 == 0) {
      const CUresult result = create(i, 1 + dice / 2 % 4);
      if (result == CUDA_SUCCESS) ++granted, names.push_back(i);
      else if (result == CUDA_ERROR_OUT_OF_MEMORY) ++refused;
      else return 4;
      if (result == CUDA_SUCCESS && dice % 3 == 0) {
        int fd = -1;
        if (CALL(cuMemExportToShareableHandle)(&fd, objects[i].handle, test::kFdType, 0) != CUDA_SUCCESS) return 5;
        close(fd);
      }
    } else if (!names.empty()) {
      Object& object = objects[names.back()];
      if (map(object) != CUDA_SUCCESS || CALL(cuMemRelease)(object.handle) != CUDA_SUCCESS) return 6;
      if (unmap(object) != CUDA_SUCCESS) return 7;
      names.pop_back();
    }
  }
  std::printf("granted %d refused %d\n", granted, refused);
  std::fflush(stdout);
  std::getline(std::cin, word);
  return 0;
}

// Imports, creates, exports, maps and releases; tests kill it in the middle.
int script(int socket) {
  if (take_in(objects[1], 3, socket) != CUDA_SUCCESS || map(objects[1]) != CUDA_SUCCESS) return 4;
  if (CALL(cuMemRelease)(objects[1].handle) != CUDA_SUCCESS) return 5;
  if (create(2, 2) != CUDA_SUCCESS || map(objects[2]) != CUDA_SUCCESS) return 6;
  int fd = -1;
  if (CALL(cuMemExportToShareableHandle)(&fd, objects[2].handle, test::kFdType, 0) != CUDA_SUCCESS) return 7;
  if (CALL(cuMemRelease)(objects[2].handle) != CUDA_SUCCESS || unmap(objects[2]) != CUDA_SUCCESS) return 8;
  close(fd);
  if (CALL(cuMemAlloc_v2)(&pointers[3], kChunk) != CUDA_SUCCESS) return 9;
  CUipcMemHandle handle{};
  if (CALL(cuIpcGetMemHandle)(&handle, pointers[3]) != CUDA_SUCCESS) return 10;
  if (CALL(cuMemFree_v2)(pointers[3]) != CUDA_SUCCESS || unmap(objects[1]) != CUDA_SUCCESS) return 11;
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const int socket = std::atoi(std::getenv("SHARING_SOCKET") ? std::getenv("SHARING_SOCKET") : "-1");
  CUcontext context = nullptr;
  CUresult result = CALL(cuInit)(0);
  const std::string way = count > 1 ? words[1] : "";
  if (result == CUDA_SUCCESS && way != "bare") result = CALL(cuCtxCreate_v2)(&context, 0, 0);
  std::printf("ready %u\n", result);
  std::fflush(stdout);
  if (way == "script") return script(socket);
  if (count > 2 && way == "race") return race(std::atoi(words[2]));
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream text(line);
    std::string word;
    int name = 0, device = 0;
    std::size_t chunks = 1;
    text >> word >> name >> chunks >> device;
    if (word == "fork") {  // the child keeps open descriptors until told by the socket
      if (fork() == 0) {
        (void)test::hear(socket);
        _exit(0);
      }
      result = CUDA_SUCCESS;
    } else if (word == "hold") {  // exports, and keeps the descriptor
      int fd = -1;
      result = CALL(cuMemExportToShareableHandle)(&fd, objects[name].handle, test::kFdType, 0);
    } else if (word == "segment" || word == "bad") {
      result = static_cast<CUresult>(word == "bad" ? bad() : segment(chunks));
    } else {
      result = obey(word, name, chunks, device, socket);
    }
    std::printf("%u\n", result);
    std::fflush(stdout);
  }
  return 0;
}
