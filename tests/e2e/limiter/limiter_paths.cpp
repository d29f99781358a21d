// Allocates and frees device memory by every path of linear memory and arrays, one command per line of standard input:
//   device N           makes the primary context of GPU N current
//   take KIND BYTES    -> RESULT BYTES    the bytes that it took, at most those requested
//   touch              -> RESULT          fills the newest piece, and reads it back
//   drop               -> RESULT          frees the newest piece
//   look               -> RESULT          queries the free memory
//   destroy | reset    -> RESULT          a context with all its memory; a new one is made
//   storm SEED ROUNDS  -> REFUSED OTHER   takes and drops at random, all kinds; OTHER: unexpected results
//   race SEED          -> REFUSED OTHER   threads take and free small pieces; keeping-race: some are kept at the end
//   errors             -> one line per call, with its result; last "end"
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/driver_call.hpp"

using namespace headgate::abi;

namespace {

struct ArrayShape {  // cuda.h: CUDA_ARRAY3D_DESCRIPTOR_v2
  std::size_t width, height, depth;
  unsigned format, channels, flags;
};
constexpr unsigned kFloat = 0x20;
constexpr const char* kKinds[] = {"alloc", "pitch", "managed", "array", "solid", "mipmap"};

struct Held {
  std::string kind;
  CUdeviceptr address = 0;
  void* handle = nullptr;
  std::uint64_t bytes = 0;
};
std::vector<Held> held;

CUresult make_array(const ArrayShape& shape, Held& out) {
  out.bytes = shape.width * std::max<std::size_t>(shape.height, 1) * std::max<std::size_t>(shape.depth, 1) * 4;
  return CALL(cuArray3DCreate_v2)(reinterpret_cast<CUarray*>(&out.handle),
                                  reinterpret_cast<const CUDA_ARRAY3D_DESCRIPTOR*>(&shape));
}

CUresult make_mipmap(std::size_t side, Held& out) {
  const ArrayShape shape{side, side, 0, kFloat, 1, 0};
  for (std::size_t each = side; each > 0; each /= 2) out.bytes += each * each * 4;
  return CALL(cuMipmappedArrayCreate)(reinterpret_cast<CUmipmappedArray*>(&out.handle),
                                      reinterpret_cast<const CUDA_ARRAY3D_DESCRIPTOR*>(&shape), 64);
}

CUresult make_pitched(std::uint64_t bytes, Held& out) {
  std::size_t pitch = 0;
  const std::size_t rows = bytes / 1024 + 1;
  const CUresult made = CALL(cuMemAllocPitch_v2)(&out.address, &pitch, 700, rows, 4);
  out.bytes = made == CUDA_SUCCESS ? pitch * rows : 1024 * rows;
  return made;
}

CUresult make_linear(bool managed, std::uint64_t bytes, Held& out) {
  out.bytes = bytes;
  const CUresult made =
      managed ? CALL(cuMemAllocManaged)(&out.address, bytes, 1) : CALL(cuMemAlloc_v2)(&out.address, bytes);
  if (made != CUDA_SUCCESS || !managed) return made;
  // Makes the GPU touch it, because managed memory is not populated before.
  const CUresult filled = CALL(cuMemsetD8_v2)(out.address, 1, bytes);
  return filled == CUDA_SUCCESS ? CALL(cuCtxSynchronize)() : filled;
}

CUresult take(const std::string& kind, std::uint64_t bytes, Held& out) {
  out = {kind};
  const std::size_t texels = bytes / 4 + 1;
  CUresult made = CUDA_ERROR_UNKNOWN;
  if (kind == "alloc") made = make_linear(false, bytes, out);
  if (kind == "managed") made = make_linear(true, bytes, out);
  if (kind == "pitch") made = make_pitched(bytes, out);
  if (kind == "array") made = make_array({1000, texels / 1000 + 1, 0, kFloat, 1, 0}, out);
  if (kind == "solid") made = make_array({30, 40, texels / 1200 + 1, kFloat, 1, 0}, out);
  if (kind == "mipmap") made = make_mipmap(64 + texels % 64, out);
  if (made == CUDA_SUCCESS) held.push_back(out);
  return made;
}

CUresult drop(const Held& what) {
  if (what.kind == "mipmap") return CALL(cuMipmappedArrayDestroy)(static_cast<CUmipmappedArray>(what.handle));
  if (what.handle != nullptr) return CALL(cuArrayDestroy)(static_cast<CUarray>(what.handle));
  return CALL(cuMemFree_v2)(what.address);
}

// Returns ILLEGAL_ADDRESS if it reads back other bytes.
CUresult touch(const Held& what) {
  std::vector<unsigned char> seen(what.bytes);
  const CUresult filled = CALL(cuMemsetD8_v2)(what.address, 0x5a, what.bytes);
  if (filled != CUDA_SUCCESS) return filled;
  const CUresult read = CALL(cuMemcpyDtoH_v2)(seen.data(), what.address, what.bytes);
  if (read != CUDA_SUCCESS) return read;
  const bool same = std::all_of(seen.begin(), seen.end(), [](unsigned char c) { return c == 0x5a; });
  return same ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUdevice device = 0;
CUcontext context = nullptr;  // from cuCtxCreate; null while the primary one is current

CUresult use_device(CUdevice number) {
  device = number;
  CUcontext primary = nullptr;
  const CUresult retained = CALL(cuDevicePrimaryCtxRetain)(&primary, device);
  return retained == CUDA_SUCCESS ? CALL(cuCtxSetCurrent)(primary) : retained;
}

// Destroys a context with copies and fills still running.
CUresult destroy() {
  for (const Held& each : held)
    if (each.address != 0) CALL(cuMemsetD8Async)(each.address, 1, each.bytes, nullptr);
  held.clear();
  if (context != nullptr) {
    const CUresult gone = CALL(cuCtxDestroy_v2)(context);
    context = nullptr;
    return gone == CUDA_SUCCESS ? CALL(cuCtxCreate_v2)(&context, 0, device) : gone;
  }
  const CUresult gone = CALL(cuDevicePrimaryCtxReset_v2)(device);
  return gone == CUDA_SUCCESS ? use_device(device) : gone;
}

void storm(unsigned seed, int rounds) {
  std::mt19937 random(seed);
  int refused = 0, other = 0;
  for (int i = 0; i < rounds; ++i) {
    if (held.size() >= 6 || (random() % 3 == 0 && !held.empty())) {
      const std::size_t which = random() % held.size();
      other += drop(held[which]) != CUDA_SUCCESS;
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    Held made;
    const std::uint64_t most = random() % 4 == 0 ? 24 << 20 : 96 << 10;
    const CUresult result = take(kKinds[random() % std::size(kKinds)], 1 + random() % most, made);
    refused += result == CUDA_ERROR_OUT_OF_MEMORY;
    other += result != CUDA_ERROR_OUT_OF_MEMORY && result != CUDA_SUCCESS;
  }
  std::cout << refused << ' ' << other << std::endl;
}

// Eight threads take and free small pieces at the same time. At the end they keep what they hold, or free all.
void race(unsigned seed, bool keep) {
  CUcontext here = nullptr;
  CALL(cuCtxGetCurrent)(&here);
  std::atomic<int> refused{0}, other{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([=, &refused, &other] {
      CALL(cuCtxSetCurrent)(here);
      std::mt19937 random(seed * 8 + t);
      std::vector<CUdeviceptr> mine;
      const auto free_one = [&](std::size_t which) {
        other += CALL(cuMemFree_v2)(mine[which]) != CUDA_SUCCESS;
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(which));
      };
      for (int i = 0; i < 1500; ++i) {
        if (!mine.empty() && random() % 2 == 0) {
          free_one(random() % mine.size());
          continue;
        }
        CUdeviceptr piece = 0;
        const CUresult result = CALL(cuMemAlloc_v2)(&piece, 1 + random() % (random() % 2 == 0 ? 4000 : 1 << 20));
        if (result == CUDA_SUCCESS) mine.push_back(piece);
        else result == CUDA_ERROR_OUT_OF_MEMORY ? ++refused : ++other;
      }
      while (!keep && !mine.empty()) free_one(mine.size() - 1);
    });
  for (std::thread& thread : threads) thread.join();
  std::cout << refused << ' ' << other << std::endl;
}

void errors() {
  const auto say = [](const char* what, CUresult result) { std::cout << what << ": " << result << std::endl; };
  CUdeviceptr at = 0;
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  std::size_t pitch = 0;
  const auto shaped = [&](const char* what, ArrayShape shape) {
    say(what, CALL(cuArray3DCreate_v2)(&array, reinterpret_cast<const CUDA_ARRAY3D_DESCRIPTOR*>(&shape)));
  };
  say("no bytes", CALL(cuMemAlloc_v2)(&at, 0));
  say("nowhere to", CALL(cuMemAlloc_v2)(nullptr, 64));
  say("all of 64 bits", CALL(cuMemAlloc_v2)(&at, ~0ull));
  say("managed, no attachment", CALL(cuMemAllocManaged)(&at, 1ull << 60, 0));
  say("managed, both attachments", CALL(cuMemAllocManaged)(&at, 64, 3));
  say("pitch of odd elements", CALL(cuMemAllocPitch_v2)(&at, &pitch, 1ull << 50, 64, 5));
  say("pitch of no rows", CALL(cuMemAllocPitch_v2)(&at, &pitch, 64, 0, 4));
  say("pitch nowhere to", CALL(cuMemAllocPitch_v2)(&at, nullptr, 64, 64, 4));
  say("array of nothing", CALL(cuArray3DCreate_v2)(&array, nullptr));
  say("array nowhere to", CALL(cuArray3DCreate_v2)(nullptr, nullptr));
  shaped("array without a width", {0, 64, 0, kFloat, 1, 0});
  shaped("array of no channels", {64, 64, 0, kFloat, 0, 0});
  shaped("deep without a height", {64, 0, 64, kFloat, 1, 0});
  shaped("cube of unequal sides", {64, 32, 6, kFloat, 1, 4});
  say("mipmap of nothing", CALL(cuMipmappedArrayCreate)(&mipmap, nullptr, 3));
  say("free of nothing", CALL(cuMemFree_v2)(0));
  say("free of an unknown address", CALL(cuMemFree_v2)(0x123456789000));
  say("destroy of no array", CALL(cuArrayDestroy)(nullptr));
  say("destroy of no mipmap", CALL(cuMipmappedArrayDestroy)(nullptr));
  say("one allocation", CALL(cuMemAlloc_v2)(&at, 1000));
  say("free in its middle", CALL(cuMemFree_v2)(at + 512));
  say("free", CALL(cuMemFree_v2)(at));
  say("free again", CALL(cuMemFree_v2)(at));
  shaped("one array", {64, 64, 0, kFloat, 1, 0});
  say("destroy", CALL(cuArrayDestroy)(array));
  say("destroy again", CALL(cuArrayDestroy)(array));
  std::cout << "end" << std::endl;
}

void obey(const std::string& line) {
  std::istringstream words(line);
  std::string word, kind;
  std::uint64_t a = 0, b = 0;
  words >> word;
  if (word == "device") {
    words >> a;
    std::cout << use_device(static_cast<CUdevice>(a)) << std::endl;
  } else if (word == "take") {
    Held made;
    words >> kind >> a;
    const CUresult result = take(kind, a, made);
    std::cout << result << ' ' << made.bytes << std::endl;
  } else if (word == "touch") {
    std::cout << touch(held.back()) << std::endl;
  } else if (word == "drop") {
    const CUresult result = drop(held.back());
    held.pop_back();
    std::cout << result << std::endl;
  } else if (word == "size") {
    std::size_t total = 0;
    CALL(cuDeviceTotalMem_v2)(&total, device);
    std::cout << total << std::endl;
  } else if (word == "look") {
    std::size_t free = 0, total = 0;
    std::cout << CALL(cuMemGetInfo_v2)(&free, &total) << std::endl;
  } else if (word == "destroy") {
    if (context == nullptr) CALL(cuCtxCreate_v2)(&context, 0, device);
    Held made;
    for (const char* each : kKinds) take(each, 1 << 20, made);
    std::cout << destroy() << std::endl;
  } else if (word == "reset") {
    std::cout << destroy() << std::endl;
  } else if (word == "storm") {
    words >> a >> b;
    storm(static_cast<unsigned>(a), static_cast<int>(b));
  } else if (word == "race" || word == "keeping-race") {
    words >> a;
    race(static_cast<unsigned>(a), word == "keeping-race");
  } else if (word == "errors") {
    errors();
  }
}

}  // namespace

int main() {
  const CUresult ready = CALL(cuInit)(0);
  const CUresult current = ready == CUDA_SUCCESS ? use_device(0) : ready;
  std::cout << current << std::endl;
  for (std::string line; std::getline(std::cin, line);) obey(line);
  return 0;
}
